"""Schema of verdicts: a run's decision about each output on each criterion."""

import pyarrow as pa

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
    **others: pa.Array | None,
) -> pa.Table:
    """Build the verdicts of one criterion over one shard, as `verdict_rows` does. others: further columns by name."""
    criterion_ids, methods = (pa.repeat(name, len(output_ids)) for name in (criterion.id, criterion.method.type))
    return verdict_rows(run_id, criterion_ids, methods, output_ids, level_ids, scores, **others)


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
    is_scored = scores.is_valid()
    columns = {
        "run_id": pa.repeat(run_id, count),
        "output_id": output_ids,
        "criterion_id": criterion_ids,
        "method": methods,
        "status": pa.DictionaryArray.from_arrays(is_scored.cast(pa.int8()), pa.array(["unscored", "scored"])).cast(
            pa.string()
        ),
        "level_id": level_ids,
        "score": scores,
        "reason": reasons if reasons is not None else pa.nulls(count, pa.string()),
        "evidence": evidence if evidence is not None else pa.nulls(count, pa.string()),
        "rationale": rationales if rationales is not None else pa.nulls(count, pa.string()),
        "request_key": request_keys if request_keys is not None else pa.nulls(count, pa.string()),
        "is_replayed": is_replayed if is_replayed is not None else pa.repeat(False, count),
    }
    return pa.table(columns, schema=VERDICT_SCHEMA)
