"""The criteria of a run's rubric as rows, for the marts and the table `criteria`."""

import pyarrow as pa

from rubrics.judging.prompt import criterion_digest
from tasks.runs import Run

CRITERIA_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("run_id", "rubric_id", "rubric_version", "criterion_id", "digest", "category")
        ),
        pa.field("weight", pa.float64()),
        pa.field("is_gate", pa.bool_()),
        pa.field("threshold", pa.float64()),
        pa.field("gate_threshold", pa.float64()),
        pa.field("method", pa.string()),
        pa.field("description", pa.string()),
    ]
)


def criteria_table(run: Run) -> pa.Table:
    """A row a criterion of the run's rubric, for the marts and the table `criteria`."""
    rubric = run.rubric
    rows = [
        {
            "run_id": run.run_id,
            "rubric_id": rubric.id,
            "rubric_version": rubric.version,
            "criterion_id": criterion.id,
            "digest": criterion_digest(criterion),
            "category": criterion.category,
            "weight": rubric.weight_of(criterion),
            "is_gate": criterion.gate,
            "threshold": criterion.threshold,
            "gate_threshold": criterion.gate_threshold,
            "method": criterion.method.type,
            "description": criterion.description,
        }
        for criterion in rubric.criteria
    ]
    return pa.Table.from_pylist(rows, schema=CRITERIA_SCHEMA)
