"""The shape of opinions: the judgments that a verdict rests on, where a run has several of them a verdict."""

import pyarrow as pa

OPINION_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("output_id", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("judge", pa.string(), nullable=False),
        pa.field("replicate", pa.int32(), nullable=False),
        pa.field("is_swapped", pa.bool_(), nullable=False),  # levels in the other order: counts in no verdict
        pa.field("request_key", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # scored | unscored
        pa.field("level_id", pa.string()),
        pa.field("score", pa.float64()),  # 0..1, null where unscored
        pa.field("reason", pa.string()),  # why unscored
    ]
)
