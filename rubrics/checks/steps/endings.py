"""Checks of how a trajectory ends: errors recovered from, the answer last, the state reached."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.json_text import NotJson, parse_json
from gradebook.rubrics.check_kit.rows import PASSED, RowFinding, gather_rows
from gradebook.rubrics.checks.steps.laid_out import LaidOutSteps, Places, lay_out
from gradebook.rubrics.checks.structured.json_equals import ComparisonSettings, compare_values, size_fault

Given = dict[str, Any]
TRIED_AGAIN: Given = {
    "steps": [
        {"kind": "user", "output": "A table for two, please."},
        {"kind": "tool", "name": "book", "error": "timed out"},
        {"kind": "tool", "name": "book", "output": "booked"},
        {"kind": "model", "output": "Booked."},
    ]
}
GAVE_UP: Given = {
    "steps": [
        {"kind": "user", "output": "A table for two, please."},
        {"kind": "model", "output": "Booked."},
        {"kind": "tool", "name": "book", "error": "timed out"},
        {"kind": "user", "output": "Is it booked?"},
    ]
}


@register_check(
    "errors_recovered",
    CheckSettings,
    columns=("steps",),
    cost="rows",
    examples=(
        Example("Booked.", True, others=TRIED_AGAIN),
        Example("Booked.", False, others=GAVE_UP),
        Example("Booked.", None),
    ),
)
def errors_recovered(shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    """The last call of each tool went well: an error was followed by a call of the same tool without one.

    Without any error it passes. An output that came without steps stays unscored.
    """
    laid_out = lay_out(shard)
    calls = np.flatnonzero(laid_out.is_call)
    names = pc.fill_null(laid_out.field("name").take(pa.array(calls)), "").dictionary_encode()
    codes = names.indices.to_numpy().astype(np.int64)
    keys = laid_out.owners[calls] * max(len(names.dictionary), 1) + codes
    _, from_the_end = np.unique(keys[::-1], return_index=True)
    last = np.sort(len(calls) - 1 - from_the_end)
    last_calls = calls[last]
    first = _first_of_each(laid_out, last_calls[laid_out.has_error[last_calls]])
    findings = [PASSED] * laid_out.row_count
    for row, step in first.items():
        findings[row] = RowFinding(False, f"the last call of {_name(laid_out, step)} ended in an error")
    return laid_out.unscored_without_steps(gather_rows(findings))


@register_check(
    "answer_last",
    CheckSettings,
    columns=("steps",),
    cost="rows",
    examples=(
        Example("Booked.", True, others=TRIED_AGAIN),
        Example("Booked.", False, others=GAVE_UP),
        Example("Booked.", None, others={"steps": [{"kind": "tool", "name": "book"}]}),
        Example("Booked.", None),
    ),
)
def answer_last(shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    """A model has the last word: after its last message, no tool was called and no user asked.

    Whether it answers what was asked is left to a judge. An output without a step of the kind `model`, or that came
    without steps, stays unscored.
    """
    laid_out = lay_out(shard)
    is_model = laid_out.is_kind("model")
    last_words = np.full(laid_out.row_count, -1)
    last_words[laid_out.owners[is_model]] = np.flatnonzero(is_model)  # the last assignment stays
    after = last_words[laid_out.owners]
    is_late = (laid_out.is_call | laid_out.is_kind("user")) & (np.arange(len(after)) > after) & (after >= 0)
    late = _first_of_each(laid_out, np.flatnonzero(is_late))
    findings = [
        _late_finding(laid_out, late.get(row)) if last >= 0 else RowFinding(None, reason="no step of a model")
        for row, last in enumerate(last_words.tolist())
    ]
    return laid_out.unscored_without_steps(gather_rows(findings))


def _late_finding(laid_out: LaidOutSteps, step: int | None) -> RowFinding:
    if step is None:
        return PASSED
    if laid_out.field("kind")[step].as_py() == "user":
        return RowFinding(False, "a user's message has no reply")
    return RowFinding(False, f"{_name(laid_out, step)} was called after the last message")


class FinalStateSettings(ComparisonSettings):
    """Where the states are, and differences to ignore."""

    state: Annotated[str, Field(min_length=1)] = "final_state"
    """key of the metadata that holds the state in the end, as JSON"""
    expected: Annotated[str, Field(min_length=1)] = "expected_state"
    """key of the metadata that holds the state that it should be"""


def _states(final: Any, expected: Any) -> Mapping[str, Any]:
    return {"metadata": {"final_state": final, "expected_state": expected}}


@register_check(
    "final_state",
    FinalStateSettings,
    columns=("metadata",),
    cost="rows",
    examples=(
        Example("Booked.", True, others=_states({"tables": [{"guests": 2}]}, {"tables": [{"guests": 2}]})),
        Example("Booked.", False, others=_states({"tables": []}, {"tables": [{"guests": 2}]})),
        Example("Booked.", True, {"ignore_keys": ["id"]}, _states({"id": 7, "guests": 2}, {"guests": 2})),
        Example("Booked.", None, others={"metadata": {"expected_state": {}}}),
    ),
)
def final_state(shard: pa.Table, settings: FinalStateSettings) -> CheckVerdicts:
    """The state in which the agent left its world equals the expected one. Both are JSON in the row's metadata.

    Compared as `json_equals` does. A row without one of the two stays unscored.
    """
    texts = text_column(shard, "metadata").to_pylist()
    return gather_rows(_state_finding(text, settings) for text in texts)


def _state_finding(text: str | None, settings: FinalStateSettings) -> RowFinding:
    if text is not None and (fault := size_fault(text, "the metadata")) is not None:
        return RowFinding(None, reason=fault)
    try:
        metadata = {} if text is None else parse_json(text)
    except NotJson as error:
        return RowFinding(None, reason=f"the metadata can't be compared: {error}")
    missing = [name for name in (settings.state, settings.expected) if name not in metadata]
    if missing:
        return RowFinding(None, reason=f"the metadata has no {' and no '.join(missing)}")
    return compare_values(metadata[settings.state], metadata[settings.expected], settings)


def _first_of_each(laid_out: LaidOutSteps, steps: Places) -> dict[int, int]:
    """First of the given steps of each output that has one: output -> step."""
    return dict(zip(laid_out.owners[steps[::-1]].tolist(), steps[::-1].tolist(), strict=True))


def _name(laid_out: LaidOutSteps, step: int) -> str:
    return laid_out.field("name")[step].as_py() or "a tool"
