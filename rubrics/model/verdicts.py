"""Schemas of stored decisions: verdicts, opinions and judgments.

verdict   a run's decision about an output on a criterion
opinion   one of several judgments behind a verdict, for runs with several votes
judgment  one reply of a judge, paid for once, stored permanently
"""

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.model.rubric import Criterion

VERDICT_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("output_id", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # scored | unscored
        pa.field("level_id", pa.string()),
        pa.field("score", pa.float64()),  # 0..1, null if unscored
        pa.field("reason", pa.string()),  # cause of an unscored verdict
        pa.field("evidence", pa.string()),
        pa.field("rationale", pa.string()),
        pa.field("request_key", pa.string()),  # judgment in the ledger, for judged criteria
        pa.field("is_replayed", pa.bool_(), nullable=False),
    ]
)


def verdict_table(
    run_id: str,
    criterion: Criterion,
    output_ids: pa.Array,
    level_ids: pa.Array,
    scores: pa.Array,
    **columns: pa.Array | None,
) -> pa.Table:
    """Build the verdicts of one criterion over one shard, as `verdict_rows` does. columns: further columns by name."""
    criterion_ids, methods = (pa.repeat(name, len(output_ids)) for name in (criterion.id, criterion.method.type))
    return verdict_rows(run_id, criterion_ids, methods, output_ids, level_ids, scores, **columns)


def verdict_rows(  # noqa: PLR0913 - a column each
    run_id: str,
    criterion_ids: pa.Array,
    methods: pa.Array,
    output_ids: pa.Array,
    level_ids: pa.Array,
    scores: pa.Array,
    *,
    reasons: pa.Array | None = None,
    evidence: pa.Array | None = None,
    rationales: pa.Array | None = None,
    request_keys: pa.Array | None = None,
    is_replayed: pa.Array | None = None,
) -> pa.Table:
    """Build verdicts from their columns: a table of `VERDICT_SCHEMA`.

    All arrays: (output,). scores in 0..1, null if unscored; `status` follows from it. Raises `pa.ArrowInvalid` if the
    lengths differ.
    """
    count = len(output_ids)
    columns = {
        "run_id": pa.repeat(run_id, count),
        "output_id": output_ids,
        "criterion_id": criterion_ids,
        "method": methods,
        "status": pc.if_else(scores.is_valid(), "scored", "unscored"),
        "level_id": level_ids,
        "score": scores,
        "reason": reasons if reasons is not None else pa.nulls(count, pa.string()),
        "evidence": evidence if evidence is not None else pa.nulls(count, pa.string()),
        "rationale": rationales if rationales is not None else pa.nulls(count, pa.string()),
        "request_key": request_keys if request_keys is not None else pa.nulls(count, pa.string()),
        "is_replayed": is_replayed if is_replayed is not None else pa.repeat(False, count),
    }
    return pa.table(columns, schema=VERDICT_SCHEMA)


OPINION_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("output_id", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("judge", pa.string(), nullable=False),
        pa.field("replicate", pa.int32(), nullable=False),
        pa.field(
            "is_swapped", pa.bool_(), nullable=False
        ),  # whether the levels were in the other order; such votes do not count in a verdict
        pa.field("request_key", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # scored | unscored
        pa.field("level_id", pa.string()),
        pa.field("score", pa.float64()),  # 0..1, null if unscored
        pa.field("reason", pa.string()),  # cause of an unscored opinion
        pa.field(
            "asked_for", pa.string()
        ),  # why a cascade's second judge was asked: doubt, audit, both; null for other votes
    ]
)


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
        pa.field("system_fingerprint", pa.string()),  # fingerprint of the backend in the reply
        pa.field("service_tier", pa.string()),  # as named in the reply
        pa.field("prompt_bytes", pa.int64()),  # size of messages and schema as sent; null if nothing was sent
        # these three are null if the endpoint did not report them; earlier versions wrote 0
        pa.field("prompt_tokens", pa.int64()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("written_tokens", pa.int64()),  # part of prompt_tokens
        pa.field("reasoning_tokens", pa.int64()),  # part of completion_tokens
        pa.field("cost_usd", pa.float64()),  # null: unknown price
        pa.field("latency_ms", pa.float64(), nullable=False),
        pa.field("attempts", pa.int32(), nullable=False),
        pa.field("asked_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
