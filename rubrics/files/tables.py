"""A rubric version as Arrow tables: its criteria and their levels."""

from typing import Any

import pyarrow as pa

from gradebook.rubrics.files.versions import question_digest
from gradebook.rubrics.model.rubric import OVERALL, Criterion, Overall, Rubric, effective_weights
from gradebook.rubrics.prompts.prompt import criterion_digest

CRITERIA_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("run_id", "rubric_id", "rubric_version", "criterion_id", "name", "digest", "category")
        ),
        pa.field("weight", pa.float64()),
        pa.field("effective_weight", pa.float64()),
        pa.field("is_gate", pa.bool_()),
        pa.field("is_required", pa.bool_()),
        pa.field("threshold", pa.float64()),
        pa.field("gate_threshold", pa.float64()),
        pa.field("method", pa.string()),
        pa.field("description", pa.string()),
        pa.field("rationale", pa.string()),
        pa.field("position", pa.int64()),  # from 1, in the order of the rubric
    ]
)
LEVELS_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("rubric_id", "rubric_version", "criterion_id", "level_id")),
        pa.field("position", pa.int64()),  # 1 is the worst
        pa.field("score", pa.float64()),
        pa.field("label", pa.string()),
        pa.field("description", pa.string()),
    ]
)


def criteria_table(run_id: str, rubric: Rubric) -> pa.Table:
    """One row per criterion of the run's rubric, for the marts and the table `criteria`."""
    weights = effective_weights(rubric)
    rows = [
        {
            "run_id": run_id,
            "rubric_id": rubric.id,
            "rubric_version": rubric.version,
            "criterion_id": criterion.id,
            "name": criterion.name,
            "digest": criterion_digest(criterion),
            "category": criterion.category,
            "weight": criterion.own_weight,
            "effective_weight": weights[criterion.id],
            "is_gate": criterion.gate,
            "is_required": criterion.required,
            "threshold": criterion.threshold,
            "gate_threshold": criterion.gate_threshold,
            "method": criterion.method.type,
            "description": criterion.description,
            "rationale": criterion.rationale,
            "position": position,
        }
        for position, criterion in enumerate(rubric.criteria, start=1)
    ]
    return pa.Table.from_pylist(rows, schema=CRITERIA_SCHEMA)


def rubric_questions(rubric: Rubric) -> list[dict[str, Any]]:
    """Questions to people: id, digest and levels of each criterion and of the overall row."""
    questions: list[tuple[str, Criterion | Overall]] = [(criterion.id, criterion) for criterion in rubric.criteria]
    questions += [(OVERALL, rubric.overall)] if rubric.overall else []
    return [
        {
            "criterion_id": name,
            "question_digest": question_digest(question),
            "level_ids": [level.id for level in question.ranked_levels],
        }
        for name, question in questions
    ]


def levels_table(rubric: Rubric) -> pa.Table:
    """One row per level of the rubric's criteria, for the table `levels`."""
    rows = [
        {
            "rubric_id": rubric.id,
            "rubric_version": rubric.version,
            "criterion_id": criterion.id,
            "level_id": level.id,
            "position": position,
            "score": level.score,
            "label": level.label,
            "description": level.description or None,
        }
        for criterion in rubric.criteria
        for position, level in enumerate(criterion.ranked_levels, start=1)
    ]
    return pa.Table.from_pylist(rows, schema=LEVELS_SCHEMA)
