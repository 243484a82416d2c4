"""Schema of opinions: the judgments behind a verdict, for runs with several per verdict."""

import pyarrow as pa

OPINION_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("output_id", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("judge", pa.string(), nullable=False),
        pa.field("replicate", pa.int32(), nullable=False),
        pa.field("is_swapped", pa.bool_(), nullable=False),  # levels in the other order: does not count in a verdict
        pa.field("request_key", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # scored | unscored
        pa.field("level_id", pa.string()),
        pa.field("score", pa.float64()),  # 0..1, null if unscored
        pa.field("reason", pa.string()),  # cause of an unscored opinion
    ]
)
