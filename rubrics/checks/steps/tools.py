"""Checks of tool calls in a trajectory: which, how often, in which order, with which arguments, and repeats."""

from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.bounds import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.evidence import quote_words
from gradebook.rubrics.check_kit.rows import PASSED, RowFinding, gather_rows
from gradebook.rubrics.checks.keywords.keywords import Words
from gradebook.rubrics.checks.steps.laid_out import is_named, lay_out
from gradebook.rubrics.checks.structured.json_objects import SchemaSettings
from gradebook.rubrics.schemas.validating import validate_outputs

SEARCHED = {"steps": [{"kind": "tool", "name": "search", "input": '{"q": "rooms"}', "output": "2 rooms"}]}
BOOKED = {
    "steps": [
        {"kind": "tool", "name": "search", "input": '{"q": "rooms"}', "output": "2 rooms"},
        {"kind": "tool", "name": "book", "input": '{"room": 2}', "error": "no such room"},
        {"kind": "tool", "name": "search", "input": '{"q": "rooms"}', "output": "2 rooms"},
    ]
}
TALKED: dict[str, Any] = {"steps": [{"kind": "model", "output": "Done."}]}


class ToolCalledSettings(BoundsSettings):
    """Tools to count, and how many calls pass; at least one by default. `max: 0` forbids them."""

    tools: Words
    """names of the tools; a call of any of them counts"""
    only_successful: bool = False
    """whether a call that ended in an error does not count"""

    @model_validator(mode="before")
    @classmethod
    def _at_least_one(cls, given: Any) -> Any:
        has_own = isinstance(given, dict) and (given.get("max") is not None or given.get("levels") is not None)
        return {"min": 1, **given} if isinstance(given, dict) and not has_own else given


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
    laid_out = lay_out(shard)
    is_counted = laid_out.is_call & is_named(laid_out.field("name"), settings.tools)
    if settings.only_successful:
        is_counted &= ~laid_out.has_error
    name = quote_words(settings.tools)
    counts = pa.array(laid_out.count(is_counted), pa.int64())
    return laid_out.unscored_without_steps(judge_counts(counts, settings, f"call of {name}", f"calls of {name}"))


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
    laid_out = lay_out(shard)
    is_call = laid_out.is_call
    names = pc.fill_null(laid_out.field("name").filter(pa.array(is_call)), "").to_pylist()
    called: list[list[str]] = [[] for _ in range(laid_out.row_count)]
    for owner, name in zip(laid_out.owners[is_call].tolist(), names, strict=True):
        called[owner].append(name)
    return laid_out.unscored_without_steps(gather_rows(_order_finding(row, settings) for row in called))


def _order_finding(called: list[str], settings: ToolsInOrderSettings) -> RowFinding:
    if settings.exactly:
        shown = quote_words(called) if called else "no tool"
        return PASSED if called == list(settings.tools) else RowFinding(False, f"called {shown}")
    left = iter(called)
    missing = next((place for place, tool in enumerate(settings.tools) if tool not in left), None)
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
    laid_out = lay_out(shard)
    is_call = laid_out.is_call & is_named(laid_out.field("name"), [settings.tool])
    texts = pc.fill_null(laid_out.field("input").filter(pa.array(is_call)), "")
    found = validate_outputs(texts, settings.json_schema)
    findings = [PASSED] * laid_out.row_count
    rows = zip(laid_out.owners[is_call].tolist(), found.is_passed.to_pylist(), found.evidence.to_pylist(), strict=True)
    for owner, is_passed, evidence in rows:
        if not is_passed and findings[owner] is PASSED:
            findings[owner] = RowFinding(False, f"{settings.tool}: {evidence or 'its arguments do not match'}")
    return laid_out.unscored_without_steps(gather_rows(findings))


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
    laid_out = lay_out(shard)
    is_call = laid_out.is_call
    steps = {"owner": pa.array(laid_out.owners), "name": laid_out.field("name"), "input": laid_out.field("input")}
    calls = pa.table(steps).filter(pa.array(is_call))
    distinct = calls.group_by(["owner", "name", "input"]).aggregate([])
    owners = distinct.column("owner").to_numpy().astype(np.int64)
    counts = laid_out.count(is_call) - np.bincount(owners, minlength=laid_out.row_count)
    return laid_out.unscored_without_steps(
        judge_counts(pa.array(counts, pa.int64()), settings, "repeated call", "repeated calls")
    )
