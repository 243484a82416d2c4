"""A person's marks of a trajectory's steps, and the running score from them.

A row is {trace_id, annotator, timestamp, annotations: [{step, label, error_type, error_subtype, severity, rationale}]},
or has such a list as `steps`. A step without a label has an error. The score is that of `score_steps`; without a
taxonomy the penalties are those of Potato's `trajectory_eval` (minor 1, major 5, critical 10) unless the rubric's
criterion has `penalties`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.importers.ratings.sheets import (
    Mark,
    MarkedStep,
    Misfit,
    Naming,
    Sheet,
    name_text,
    notes_text,
    read_moment,
    read_notes,
    read_rater,
    read_slot,
    shown_value,
)
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.taxonomy import (
    NamedError,
    StepMark,
    Taxonomy,
    folded_name,
    points_of,
    ranked_severities,
    step_levels,
)

TRAJECTORY = "trajectory"  # rated criterion if the rubric has no criterion of steps
MOST_SLIPS = 10_000
MOST_SHOWN_KINDS = 20
_STEP = ("step", "step_index", "step_id", "location")
_LABEL = ("label", "correctness")
_ERROR_TYPE = ("error_type", "type", "category")
_SUBTYPE = ("error_subtype", "subtype")
_SEVERITY = ("severity", "impact")
_RATIONALE = ("rationale", "description", "notes")
# Whole labels, in lower case: a single word is ambiguous, as in "no error", "not wrong" and "never correct".
LABELS_BY_SCORE: dict[float, tuple[str, ...]] = {
    0: ("incorrect", "not correct", "wrong", "error", "fail", "failed"),
    0.5: ("partially correct", "partly correct", "partially incorrect", "partial", "mixed"),
    1: ("correct", "right", "no error", "no errors", "error free", "pass", "passed"),
}
SCORE_OF_LABEL = {label: score for score, labels in LABELS_BY_SCORE.items() for label in labels}


@dataclass(frozen=True, slots=True)
class StepScale:
    """Labels, errors and penalties of a step. levels: labels, worst first; penalties: None if labels are scored."""

    levels: tuple[Level, ...] = step_levels()
    penalties: Mapping[str, float] | None = None
    taxonomy: Taxonomy | None = None

    def marks(self, slips: Iterable[MarkedStep]) -> tuple[StepMark, ...]:
        """Marks with the scale's own labels, kinds and severities. Raises `Misfit` for unknown ones."""
        return tuple(map(self._mark, slips))

    def _mark(self, slip: MarkedStep) -> StepMark:
        level = self._level(slip)
        if level == self.levels[-1]:
            if slip.error_type or slip.severity:
                raise Misfit(f"step {slip.step}: found an error on a step labelled {level.id}, expected none")
            return StepMark(slip.step, level.id, level.score, rationale=slip.rationale)
        is_bare = slip.label is None
        severity = self._severity(slip) if is_bare or slip.severity or self.penalties else None
        error_type, error_subtype = self._error(slip) if is_bare or slip.error_type or self.taxonomy else (None, None)
        mark = StepMark(slip.step, level.id, level.score, error_type, error_subtype, severity, slip.rationale)
        if severity is not None and self.penalties is not None and points_of(mark, self.penalties) is None:
            raise Misfit(f"severity: found {error_type} / {severity}, expected one of {', '.join(self.penalties)}")
        return mark

    def _level(self, slip: MarkedStep) -> Level:
        if slip.label is None:
            return self.levels[0]
        name = folded_name(slip.label)
        found_level = next(
            (level for level in self.levels if name in (folded_name(level.id), folded_name(level.label))), None
        )
        found_level = found_level or next(
            (level for level in self.levels if level.score == SCORE_OF_LABEL.get(name)), None
        )
        if found_level is None:
            labels = ", ".join(level.id for level in self.levels)
            raise Misfit(f"step {slip.step}: found the label {shown_value(slip.label)}, expected one of {labels}")
        return found_level

    def _severity(self, slip: MarkedStep) -> str:
        penalties = self.penalties or (self.taxonomy.severities if self.taxonomy else {}) or {slip.severity or "": 0}
        severities = ranked_severities(penalties)
        severity = next((name for name in severities if folded_name(name) == folded_name(slip.severity)), None)
        if not severity:
            actual = shown_value(slip.severity) if slip.severity else "nothing"
            raise Misfit(f"severity: found {actual}, expected one of {', '.join(severities)}")
        return severity

    def _error(self, slip: MarkedStep) -> NamedError:
        if self.taxonomy is None:
            if slip.error_type is None:
                raise Misfit(f"step {slip.step}: error_type: found nothing, expected a value")
            return NamedError(slip.error_type, slip.error_subtype)
        error = self.taxonomy.find(slip.error_type, slip.error_subtype)
        if error is None:
            kinds = [" / ".join(word for word in kind if word) for kind in self.taxonomy.kinds]
            more = ", ..." if len(kinds) > MOST_SHOWN_KINDS else ""
            error_name = " / ".join(word for word in (slip.error_type, slip.error_subtype) if word)
            expected = f"expected one of {', '.join(kinds[:MOST_SHOWN_KINDS])}{more}"
            raise Misfit(f"annotations: found {shown_value(error_name) if error_name else 'nothing'}, {expected}")
        return error


def is_trajectory(row: Row) -> bool:
    """Whether a row lists a person's marks of a trajectory's steps."""
    return _listed_steps(row) is not None


def read_trajectory_row(row: Row, naming: Naming) -> Sheet:
    """Sheet of a row, with one mark that has the steps' marks and the person's notes. Raises `Misfit`."""
    steps = _listed_steps(row) or []
    if len(steps) > MOST_SLIPS:
        raise Misfit(f"annotations: found {len(steps):,} errors, expected at most {MOST_SLIPS:,}")
    slips = tuple(slip for index, entry in enumerate(steps) if (slip := _step_error(entry, index)) is not None)
    criterion = (
        name_text("criterion_id", row.get("criterion_id")) or ""
    )  # needed if a rubric has several criteria of steps
    mark = Mark(criterion, slips, "running_score", read_notes(row, naming))
    return Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), None, (mark,))


def _listed_steps(row: Row) -> list[Any] | None:
    """List of marks of steps in a row; None if it has none."""
    annotations = row.get("annotations")
    if isinstance(annotations, list) and not any(
        isinstance(entry, dict) and "result" in entry for entry in annotations
    ):
        return annotations
    steps = row.get("steps")
    is_marked = isinstance(steps, list) and any(
        isinstance(step, dict) and any(name in step for name in (*_LABEL, "error_type")) for step in steps
    )
    return steps if is_marked else None


def _step_error(value: Any, index: int) -> MarkedStep | None:
    """Mark of a step; None for a step without a label, which forms may list."""
    if not isinstance(value, dict):
        raise Misfit(f"annotations[{index}]: found {shown_value(value)}, expected an error: step, error_type, severity")
    label, error_type = _part(value, _LABEL, index), _part(value, _ERROR_TYPE, index)
    subtype, severity = _part(value, _SUBTYPE, index), _part(value, _SEVERITY, index)
    if label is None and error_type is None and any(name in value for name in _LABEL):
        return None
    if label is None:
        error_type, severity = (
            _first_present(error_type, _ERROR_TYPE, index),
            _first_present(severity, _SEVERITY, index),
        )
    step = _first_present(_part(value, _STEP, index), _STEP, index)
    rationale = next((notes_text(value[name]) for name in _RATIONALE if value.get(name)), None)
    return MarkedStep(step, error_type, severity, label, subtype, rationale)


def _part(value: Row, names: Sequence[str], index: int) -> str | None:
    first_value = next((value[name] for name in names if value.get(name) not in (None, "")), None)
    return name_text(f"annotations[{index}].{names[0]}", first_value)


def _first_present(text: str | None, names: Sequence[str], index: int) -> str:
    if text is None:
        raise Misfit(f"annotations[{index}].{names[0]}: found nothing, expected a value")
    return text
