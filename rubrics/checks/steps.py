"""Checks of the steps of a trajectory.

tool calls  which, how often, in which order, with which arguments, and repeats
the end     errors recovered from, the answer last, the state reached
totals      steps, errors, tokens, cost and time
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import (
    PASSED,
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import Mask, quote_words, text_column, to_mask
from gradebook.rubrics.check_kit.json_text import NotJson, parse_json
from gradebook.rubrics.check_kit.measures import BoundsSettings, MeasureSettings, judge_counts, judge_measures
from gradebook.rubrics.checks.json_outputs import ComparisonSettings, SchemaSettings, compare_values, size_fault
from gradebook.rubrics.checks.keywords import Words
from gradebook.rubrics.model.steps import StepKind

SEARCHED = {"steps": [{"kind": "tool", "name": "search", "input": '{"q": "rooms"}', "output": "2 rooms"}]}
BOOKED = {
    "steps": [
        {"kind": "tool", "name": "search", "input": '{"q": "rooms"}', "output": "2 rooms"},
        {"kind": "tool", "name": "book", "input": '{"room": 2}', "error": "no such room"},
        {"kind": "tool", "name": "search", "input": '{"q": "rooms"}', "output": "2 rooms"},
    ]
}


class ToolCalledSettings(BoundsSettings):
    """Tools to count, and how many calls pass; at least one by default. `max: 0` forbids them."""

    tools: Words
    """names of the tools; a call of any of them counts"""
    only_successful: bool = False
    """whether a call that ended in an error does not count"""

    @model_validator(mode="before")
    @classmethod
    def _at_least_one(cls, values: Any) -> Any:
        has_bounds = isinstance(values, dict) and (values.get("max") is not None or values.get("levels") is not None)
        return {"min": 1, **values} if isinstance(values, dict) and not has_bounds else values


@register_check(
    "tool_called",
    ToolCalledSettings,
    columns=("steps",),
    examples=(
        Example("Done.", True, {"tools": ["search"]}, SEARCHED),
        Example("Done.", False, {"tools": ["book"], "only_successful": True}, BOOKED),
        Example("Done.", False, {"tools": ["search"], "max": 1}, BOOKED),
        Example("Done.", True, {"tools": ["pay"], "max": 0}, BOOKED),
        Example("Done.", None, {"tools": ["search"]}),
    ),
)
def tool_called(shard: pa.Table, settings: ToolCalledSettings) -> CheckVerdicts:
    """The agent called one of the tools, as often as `min` and `max` say.

    Steps of the kind `tool` or `retrieval` are counted by their name. An output that came without steps stays unscored.
    """
    flat_steps = flatten_steps(shard)
    is_counted = flat_steps.is_call & is_named(flat_steps.field("name"), settings.tools)
    if settings.only_successful:
        is_counted &= ~flat_steps.has_error
    name = quote_words(settings.tools)
    counts = pa.array(flat_steps.count(is_counted), pa.int64())
    return flat_steps.unscored_without_steps(judge_counts(counts, settings, f"call of {name}", f"calls of {name}"))


class ToolsInOrderSettings(CheckSettings):
    """Tools in the order in which they have to be called."""

    tools: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=2)]
    """names of the tools, in order; one that is needed twice stands twice"""
    exactly: bool = False
    """whether other calls in between, before or after fail; otherwise they are passed over"""


@register_check(
    "tools_in_order",
    ToolsInOrderSettings,
    columns=("steps",),
    cost="rows",
    examples=(
        Example("Done.", True, {"tools": ["search", "book"]}, BOOKED),
        Example("Done.", False, {"tools": ["search", "book"], "exactly": True}, BOOKED),
        Example("Done.", False, {"tools": ["book", "search", "book"]}, BOOKED),
        Example("Done.", None, {"tools": ["search", "book"]}),
    ),
)
def tools_in_order(shard: pa.Table, settings: ToolsInOrderSettings) -> CheckVerdicts:
    """The agent called the tools in this order.

    Steps of the kind `tool` or `retrieval` count, successful or not. An output that came without steps stays unscored.
    """
    flat_steps = flatten_steps(shard)
    is_call = flat_steps.is_call
    names = pc.fill_null(flat_steps.field("name").filter(pa.array(is_call)), "").to_pylist()
    called: list[list[str]] = [[] for _ in range(flat_steps.row_count)]
    for owner, name in zip(flat_steps.owners[is_call].tolist(), names, strict=True):
        called[owner].append(name)
    return flat_steps.unscored_without_steps(gather_rows(_order_finding(row, settings) for row in called))


def _order_finding(called: list[str], settings: ToolsInOrderSettings) -> RowFinding:
    if settings.exactly:
        calls_text = quote_words(called) if called else "no tool"
        return PASSED if called == list(settings.tools) else RowFinding(False, f"called {calls_text}")
    remaining = iter(called)
    missing = next((index for index, tool in enumerate(settings.tools) if tool not in remaining), None)
    if missing is None:
        return PASSED
    after = f" after {settings.tools[missing - 1]}" if missing else ""
    return RowFinding(False, f"no call of {settings.tools[missing]}{after}")


class ToolArgumentsSettings(SchemaSettings):
    """Tool, and the JSON Schema of its arguments."""

    tool: Annotated[str, Field(min_length=1)]
    """name of the tool"""


@register_check(
    "tool_arguments",
    ToolArgumentsSettings,
    columns=("steps",),
    cost="rows",
    examples=(
        Example("Done.", True, {"tool": "book", "schema": {"required": ["room"]}}, BOOKED),
        Example("Done.", False, {"tool": "book", "schema": {"required": ["room", "nights"]}}, BOOKED),
        Example("Done.", True, {"tool": "pay", "schema": {"required": ["amount"]}}, BOOKED),
        Example("Done.", None, {"tool": "book", "schema": {"required": ["room"]}}),
    ),
)
def tool_arguments(shard: pa.Table, settings: ToolArgumentsSettings) -> CheckVerdicts:
    """The arguments of each call of the tool match the schema.

    Arguments that are missing or no JSON fail. An output without a call of the tool passes; `tool_called` asks for one.
    An output that came without steps stays unscored.
    """
    flat_steps = flatten_steps(shard)
    from gradebook.rubrics.schemas.validating import validate_outputs  # here: slow to import

    is_call = flat_steps.is_call & is_named(flat_steps.field("name"), [settings.tool])
    texts = pc.fill_null(flat_steps.field("input").filter(pa.array(is_call)), "")
    verdicts = validate_outputs(texts, settings.json_schema)
    findings = [PASSED] * flat_steps.row_count
    rows = zip(
        flat_steps.owners[is_call].tolist(), verdicts.is_passed.to_pylist(), verdicts.evidence.to_pylist(), strict=True
    )
    for owner, is_passed, evidence in rows:
        if not is_passed and findings[owner] is PASSED:
            findings[owner] = RowFinding(False, f"{settings.tool}: {evidence or 'its arguments do not match'}")
    return flat_steps.unscored_without_steps(gather_rows(findings))


@register_check(
    "repeated_calls",
    BoundsSettings,
    columns=("steps",),
    examples=(
        Example("Done.", True, {"max": 0}, SEARCHED),
        Example("Done.", False, {"max": 0}, BOOKED),
        Example("Done.", True, {"max": 1}, BOOKED),
        Example("Done.", None, {"max": 0}),
    ),
)
def repeated_calls(shard: pa.Table, settings: BoundsSettings) -> CheckVerdicts:
    """The number of calls that repeat an earlier one, with the same tool and the same arguments, is within the bounds.

    Arguments are compared as text. An output that came without steps stays unscored.
    """
    flat_steps = flatten_steps(shard)
    is_call = flat_steps.is_call
    steps = {"owner": pa.array(flat_steps.owners), "name": flat_steps.field("name"), "input": flat_steps.field("input")}
    calls = pa.table(steps).filter(pa.array(is_call))
    distinct = calls.group_by(["owner", "name", "input"]).aggregate([])
    owners = distinct.column("owner").to_numpy().astype(np.int64)
    counts = flat_steps.count(is_call) - np.bincount(owners, minlength=flat_steps.row_count)
    return flat_steps.unscored_without_steps(
        judge_counts(pa.array(counts, pa.int64()), settings, "repeated call", "repeated calls")
    )


PRICED: dict[str, Any] = {
    "steps": [
        {"kind": "model", "output": "Let me look.", "tokens": 200, "cost_usd": 0.01, "latency_ms": 900.0},
        {"kind": "tool", "name": "search", "error": "timed out", "latency_ms": 5000.0},
        {"kind": "model", "output": "Sorry.", "tokens": 300, "cost_usd": 0.02, "latency_ms": 700.0},
    ]
}
_MEASURES = {"tokens": "tokens", "cost_usd": "cost in dollars", "latency_ms": "milliseconds in steps"}


class CountStepsSettings(BoundsSettings):
    """Steps to count, and their bounds."""

    kinds: tuple[StepKind, ...] = ()
    """kinds of steps that count; all by default"""
    only_errors: bool = False
    """whether only steps with an error count"""


@register_check(
    "count_steps",
    CountStepsSettings,
    columns=("steps",),
    examples=(
        Example("Sorry.", True, {"max": 3}, PRICED),
        Example("Sorry.", False, {"max": 0, "only_errors": True}, PRICED),
        Example("Sorry.", True, {"min": 1, "max": 1, "kinds": ["tool"]}, PRICED),
        Example("Sorry.", None, {"max": 3}),
    ),
)
def count_steps(shard: pa.Table, settings: CountStepsSettings) -> CheckVerdicts:
    """The number of steps, or of those of some kinds or with an error, is within the bounds.

    An output that came without steps stays unscored.
    """
    flat_steps = flatten_steps(shard)
    is_counted = flat_steps.is_kind(*settings.kinds) if settings.kinds else np.ones(len(flat_steps.owners), np.bool_)
    if settings.only_errors:
        is_counted &= flat_steps.has_error
    counts = pa.array(flat_steps.count(is_counted), pa.int64())
    return flat_steps.unscored_without_steps(judge_counts(counts, settings, "step", "steps"))


class StepTotalSettings(MeasureSettings):
    """Measure that is summed over the steps, and the bounds of its sum."""

    measure: Literal["tokens", "cost_usd", "latency_ms"]
    """the field of the steps to add up"""


@register_check(
    "step_total",
    StepTotalSettings,
    columns=("steps",),
    examples=(
        Example("Sorry.", True, {"measure": "tokens", "max": 500}, PRICED),
        Example("Sorry.", False, {"measure": "cost_usd", "max": 0.02}, PRICED),
        Example("Sorry.", False, {"measure": "latency_ms", "max": 2000}, PRICED),
        Example("Sorry.", None, {"measure": "tokens", "max": 500}),
    ),
)
def step_total(shard: pa.Table, settings: StepTotalSettings) -> CheckVerdicts:
    """The tokens, the cost or the time of all steps together is within the bounds.

    Steps that do not say it are left out of the sum, and steps that ran at once each count. An output none of whose
    steps says it stays unscored.
    """
    flat_steps = flatten_steps(shard)
    totals = flat_steps.total(settings.measure)
    reasons = pc.if_else(totals.is_null(), f"no step states its {settings.measure}", pa.scalar(None, pa.string()))
    return flat_steps.unscored_without_steps(judge_measures(totals, settings, _MEASURES[settings.measure], reasons))


NO_STEPS = "no steps: the output came without a trajectory"
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FlatSteps:
    """Steps of all outputs in order. has_steps: (output,). owners: (step,), index of the step's output."""

    row_count: int
    has_steps: Mask
    owners: Indices
    steps: pa.StructArray

    def field(self, name: str) -> pa.Array:
        """One field of the steps: (step,)."""
        return self.steps.field(name)

    def is_kind(self, *kinds: str) -> Mask:
        """Whether each step is of one of the kinds: (step,)."""
        return to_mask(pc.is_in(self.field("kind"), pa.array(kinds, pa.string())))

    @property
    def is_call(self) -> Mask:
        """Whether each step is a call of a tool or a retriever: (step,)."""
        return self.is_kind("tool", "retrieval")

    @property
    def has_error(self) -> Mask:
        """Whether each step ended in an error: (step,)."""
        return to_mask(self.field("error").is_valid())

    def count(self, is_counted: Mask) -> Indices:
        """Number of the chosen steps of each output: (output,)."""
        return np.bincount(self.owners[is_counted], minlength=self.row_count)

    def total(self, name: str) -> pa.DoubleArray:
        """Sum of a field over the steps of each output: (output,); null if no step has the field."""
        values = self.field(name)
        is_known = to_mask(values.is_valid())
        known_values = values.drop_null().cast(pa.float64()).to_numpy()
        sums = np.bincount(self.owners[is_known], weights=known_values, minlength=self.row_count)
        return pa.array(sums, pa.float64(), mask=self.count(is_known) == 0)

    def unscored_without_steps(self, verdicts: CheckVerdicts) -> CheckVerdicts:
        """Verdicts in which outputs without steps are unscored, with the reason."""
        has_steps = pa.array(self.has_steps)
        nothing = pa.scalar(None, pa.string())
        reasons = nothing if verdicts.reasons is None else verdicts.reasons
        return CheckVerdicts(
            pc.if_else(has_steps, verdicts.is_passed, pa.scalar(None, pa.bool_())),
            pc.if_else(has_steps, verdicts.evidence, nothing),
            pc.if_else(has_steps, reasons, NO_STEPS),
            None if verdicts.level_ids is None else pc.if_else(has_steps, verdicts.level_ids, nothing),
        )


def flatten_steps(shard: pa.Table) -> FlatSteps:
    """Flatten the column `steps` of a shard."""
    column = shard.column("steps").combine_chunks()
    has_steps = to_mask(column.is_valid())
    return FlatSteps(
        len(column), has_steps, pc.list_parent_indices(column).cast(pa.int64()).to_numpy(), pc.list_flatten(column)
    )


def is_named(names: pa.Array, wanted: Sequence[str]) -> Mask:
    """Whether each name is one of the wanted: (step,)."""
    return to_mask(pc.is_in(names, pa.array(wanted, pa.string())))


ExampleColumns = dict[str, Any]
TRIED_AGAIN: ExampleColumns = {
    "steps": [
        {"kind": "user", "output": "A table for two, please."},
        {"kind": "tool", "name": "book", "error": "timed out"},
        {"kind": "tool", "name": "book", "output": "booked"},
        {"kind": "model", "output": "Booked."},
    ]
}
GAVE_UP: ExampleColumns = {
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
    flat_steps = flatten_steps(shard)
    calls = np.flatnonzero(flat_steps.is_call)
    names = pc.fill_null(flat_steps.field("name").take(pa.array(calls)), "").dictionary_encode()
    codes = names.indices.to_numpy().astype(np.int64)
    keys = flat_steps.owners[calls] * max(len(names.dictionary), 1) + codes
    _, from_the_end = np.unique(keys[::-1], return_index=True)
    last = np.sort(len(calls) - 1 - from_the_end)
    last_calls = calls[last]
    first = _first_of_each(flat_steps, last_calls[flat_steps.has_error[last_calls]])
    findings = [PASSED] * flat_steps.row_count
    for row, step in first.items():
        findings[row] = RowFinding(False, f"the last call of {_name(flat_steps, step)} ended in an error")
    return flat_steps.unscored_without_steps(gather_rows(findings))


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
    """A model's message is the last step: no tool call and no user's message follows it.

    Whether it answers what was asked is left to a judge. An output without a step of the kind `model`, or that came
    without steps, stays unscored.
    """
    flat_steps = flatten_steps(shard)
    is_model = flat_steps.is_kind("model")
    last_messages = np.full(flat_steps.row_count, -1)
    last_messages[flat_steps.owners[is_model]] = np.flatnonzero(is_model)  # of repeated indices, the last value counts
    last_message_of_step = last_messages[flat_steps.owners]
    is_after_last = (
        (flat_steps.is_call | flat_steps.is_kind("user"))
        & (np.arange(len(last_message_of_step)) > last_message_of_step)
        & (last_message_of_step >= 0)
    )
    first_late_steps = _first_of_each(flat_steps, np.flatnonzero(is_after_last))
    findings = [
        _late_finding(flat_steps, first_late_steps.get(row))
        if last >= 0
        else RowFinding(None, reason="no step of a model")
        for row, last in enumerate(last_messages.tolist())
    ]
    return flat_steps.unscored_without_steps(gather_rows(findings))


def _late_finding(flat_steps: FlatSteps, step: int | None) -> RowFinding:
    if step is None:
        return PASSED
    if flat_steps.field("kind")[step].as_py() == "user":
        return RowFinding(False, "a user's message has no reply")
    return RowFinding(False, f"{_name(flat_steps, step)} was called after the last message")


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


def _first_of_each(flat_steps: FlatSteps, steps: Indices) -> dict[int, int]:
    """First of the given steps in each output: output -> step."""
    return dict(zip(flat_steps.owners[steps[::-1]].tolist(), steps[::-1].tolist(), strict=True))


def _name(flat_steps: FlatSteps, step: int) -> str:
    return flat_steps.field("name")[step].as_py() or "a tool"
