"""Results of other evaluators: outputs, and their scores as ratings of a rater named after the evaluator."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from gradebook.rubrics.importers.foreign_file import Reading
from gradebook.rubrics.importers.ids import DistinctIds, identifier
from gradebook.rubrics.importers.metadata import FIRST_VERSION, FieldCounts, drop_empty
from gradebook.rubrics.importers.registry import Imported
from gradebook.rubrics.model.errors import Fault
from gradebook.rubrics.model.json_values import Row, drop_none

LEVELS: tuple[Row, ...] = (
    {"id": "fail", "score": 0.0, "description": "The evaluator's lowest score."},
    {"id": "pass", "score": 1.0, "description": "The evaluator's highest score."},
)
_KEY_COLUMNS = ("case_id", "model", "checkpoint")


@dataclass(frozen=True, slots=True)
class Mark:
    """Score of one output by one of the evaluator's metrics. score: 0..1, or None."""

    metric: str
    score: float | None
    notes: str = ""
    threshold: float | None = None


def as_score(value: Any) -> float | None:
    """Score (0..1) from a number or truth value; None for anything else."""
    if isinstance(value, int | float) and 0 <= value <= 1:
        return float(value)
    return None


def import_results(
    rater: str,
    reading: Reading,
    rows: Sequence[tuple[Row, Sequence[Mark]]],
    stored_fields: FieldCounts,
    names: Sequence[str] = (),
) -> Imported:
    """Import outputs with their marks: a rubric with a criterion by ratings for each metric, rows, and ratings.

    names: metrics in the order of the file, ahead of those of the rows. Rows without an answer are cases, and their
    marks are left out. Raises `RubricError` with every fault.
    """
    ids = DistinctIds()
    scored = [(row, mark) for row, marks in rows if is_answered(row) for mark in marks if mark.score is not None]
    unanswered = [mark for row, marks in rows if not is_answered(row) for mark in marks if mark.score is not None]
    stored_fields.note(*("scores of cases without an answer, left out" for _ in unanswered))
    of_metric = {name: ids.take(name) for name in dict.fromkeys([*names, *(mark.metric for _, mark in scored)])}
    ratings = tuple(
        rating_row(row, of_metric[mark.metric], rater, mark.score, mark.notes)
        for row, mark in scored
        if mark.score is not None
    )
    cases = tuple(row for row, _ in rows)
    _refuse_other_rows(reading, cases)
    reading.stop_at_faults()
    if not ratings:
        return Imported(cases=cases, kept=stored_fields.words())
    marks: dict[str, list[Mark]] = {}
    for _, mark in scored:
        marks.setdefault(mark.metric, []).append(mark)
    rubric: Row = {
        "id": identifier(PurePath(reading.path).stem, "rubric"),
        "version": FIRST_VERSION,
        "description": f"The scores of {rater}, as they came.",
        "missing": "skip",
        "criteria": [
            _criterion(of_metric[metric], metric, rater, metric_marks) for metric, metric_marks in marks.items()
        ],
    }
    finished = reading.finish(rubric, stored_fields)
    return Imported(finished.rubric, cases, ratings, finished.kept)


def _refuse_other_rows(reading: Reading, rows: Sequence[Row]) -> None:
    """Report different rows of one case, model and sample: their ratings could not be told apart."""
    first_rows: dict[tuple[Any, ...], Row] = {}
    for row in filter(is_answered, rows):
        key = (*(row.get(name) for name in _KEY_COLUMNS), row.get("sample_index", 0))
        if first_rows.setdefault(key, row) != row:
            message = f"found two outputs of {row['model']} as sample {key[-1]} of the case {row['case_id']!r}"
            expected = "expected one: import files with other cases or models apart"
            reading.faults.append(Fault(reading.path, None, f"{message}, {expected}"))


def is_answered(row: Row) -> bool:
    """Whether a row has an output, or a conversation that a run reads as one."""
    return "output" in row or "messages" in row


def _criterion(criterion_id: str, metric: str, rater: str, marks: Iterable[Mark]) -> Row:
    thresholds = {mark.threshold for mark in marks}
    return {
        "id": criterion_id,
        **drop_none({"name": metric if metric != criterion_id else None}),
        "description": f"Score of {rater} on {metric}.",
        "weight": 1,
        **drop_none({"threshold": thresholds.pop() if len(thresholds) == 1 else None}),
        "levels": [dict(level) for level in LEVELS],
        "method": {"type": "ratings"},
    }


def rating_row(row: Row, criterion_id: str, rater: str, score: float, notes: str | None = None) -> Row:
    """Rating of the output in a row."""
    key_columns = {name: row[name] for name in _KEY_COLUMNS if name in row}
    key_columns |= {
        "sample_index": row.get("sample_index", 0)
    }  # without this column, the output of a repeated case would be unknown
    return {**key_columns, "criterion_id": criterion_id, "rater": rater, "score": score, **drop_empty({"notes": notes})}


def model_step(
    model: str, *, tokens: Any = None, cost_usd: Any = None, latency_ms: Any = None, error: str | None = None
) -> Row:
    """The key `steps` with the model's one call: its tokens, cost, time and error; no key if none is known."""
    amounts = {"cost_usd": cost_usd, "latency_ms": latency_ms}
    fields: Row = {name: float(value) for name, value in amounts.items() if _is_amount(value)}
    fields |= {"tokens": tokens} if isinstance(tokens, int) and _is_amount(tokens) else {}
    fields |= drop_empty({"error": error})
    return {"steps": [{"kind": "model", "name": model, **fields}]} if fields else {}


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63
