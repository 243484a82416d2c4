"""Schema of judgments: one row per reply of a judge, paid for once, stored permanently."""

import pyarrow as pa

JUDGMENT_SCHEMA = pa.schema(
    [
        pa.field("judgment_id", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),  # the run that paid
        pa.field("request_key", pa.string(), nullable=False),
        pa.field("output_id", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("judge", pa.string(), nullable=False),
        pa.field("replicate", pa.int32(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # scored, or the reason for a missing level
        pa.field("level_id", pa.string()),
        pa.field("distribution", pa.string()),  # JSON: level id -> probability
        pa.field("rationale", pa.string()),
        pa.field("evidence", pa.string()),
        pa.field("prompt_digest", pa.string(), nullable=False),
        pa.field("reply", pa.string()),  # raw text
        pa.field("model_returned", pa.string()),
        pa.field("system_fingerprint", pa.string()),  # of the backend, as named in the reply
        pa.field("service_tier", pa.string()),  # as named in the reply
        pa.field("prompt_bytes", pa.int64()),  # of the messages and the schema as sent; null if nothing was sent
        # these three are null if the endpoint did not report them; earlier versions wrote 0
        pa.field("prompt_tokens", pa.int64()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("cost_usd", pa.float64()),  # null: unknown price
        pa.field("latency_ms", pa.float64(), nullable=False),
        pa.field("attempts", pa.int32(), nullable=False),
        pa.field("asked_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
