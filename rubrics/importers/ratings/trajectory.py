"""Errors that a person marked in the steps of a trajectory, as one running score.

A row is {trace_id, annotator, timestamp, annotations: [{step, error_type, severity}]}. The score starts at 100 and each
error deducts the penalty of its severity: score = max(0, 100 - sum of penalties) / 100, 1 for an empty list. The
penalties are those of Potato's `trajectory_eval` (minor 1, major 5, critical 10) unless the rubric's criterion has
`penalties`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gradebook.rubrics.importers.ratings.columns import (
    name_text,
    read_moment,
    read_notes,
    read_rater,
    read_slot,
    words_of,
)
from gradebook.rubrics.importers.ratings.shapes import Mark, Misfit, Naming, Sheet, Slip
from gradebook.rubrics.model.rows import Row

START = 100.0
TRAJECTORY = "trajectory"  # the rated criterion if none has penalties
DEFAULT_PENALTIES: Mapping[str, float] = {"minor": 1, "major": 5, "critical": 10}
MOST_SLIPS = 10_000
_STEP = ("step", "step_index", "step_id")
_ERROR_TYPE = ("error_type", "type", "category")


def is_trajectory(row: Row) -> bool:
    """Whether a row lists the errors of a trajectory's steps."""
    return isinstance(row.get("annotations"), list) and not any("result" in each for each in _mappings(row))


def read_trajectory_row(row: Row, naming: Naming) -> Sheet:
    """Sheet of a row: its only mark has the errors and the person's notes. Raises `Misfit`."""
    found = row["annotations"]
    if len(found) > MOST_SLIPS:
        raise Misfit(f"annotations: found {len(found):,} errors, expected at most {MOST_SLIPS:,}")
    slips = tuple(_slip(each, index) for index, each in enumerate(found))
    mark = Mark("", slips, "running_score", read_notes(row, naming))
    return Sheet(read_slot(row, naming), read_rater(row, naming), read_moment(row, naming), None, (mark,))


def running_score(slips: Sequence[Slip], penalties: Mapping[str, float]) -> float:
    """Share of the start left after the errors, 0..1. Raises `Misfit` for an error without a penalty."""
    return max(0.0, START - sum(penalty_of(slip, penalties) for slip in slips)) / START


def penalty_of(slip: Slip, penalties: Mapping[str, float]) -> float:
    """Points of an error: those of its type and severity, `type/severity`, or else of its severity. Raises `Misfit`."""
    found = penalties.get(f"{slip.error_type}/{slip.severity}", penalties.get(slip.severity))
    if found is None:
        raise Misfit(f"severity: found {words_of(slip.severity)}, expected one of {', '.join(penalties)}")
    return found


def describe_slips(slips: Sequence[Slip], penalties: Mapping[str, float]) -> str:
    """Errors in words: "step 3: wrong_tool (major, -5)", separated by semicolons."""
    words = (
        f"step {each.step}: {each.error_type} ({each.severity}, -{penalty_of(each, penalties):g})" for each in slips
    )
    return "; ".join(words) or "no errors"


def _slip(value: Any, index: int) -> Slip:
    if not isinstance(value, dict):
        raise Misfit(f"annotations[{index}]: found {words_of(value)}, expected an error: step, error_type, severity")
    return Slip(_part(value, _STEP, index), _part(value, _ERROR_TYPE, index), _part(value, ("severity",), index))


def _part(value: Row, names: Sequence[str], index: int) -> str:
    found = next((value[name] for name in names if value.get(name) is not None), None)
    text = name_text(f"annotations[{index}].{names[0]}", found)
    if text is None:
        raise Misfit(f"annotations[{index}].{names[0]}: found nothing, expected a value")
    return text


def _mappings(row: Row) -> list[Row]:
    return [each for each in row["annotations"] if isinstance(each, dict)]
