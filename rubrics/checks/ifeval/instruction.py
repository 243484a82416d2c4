"""Common parts of the 25 instructions: registration, comparison of counts, and blank outputs.

The instructions are those of IFEval (Zhou et al. 2023, arXiv 2311.07911) with the names and settings of its data set.
They are judged one output at a time: the usual call has one output, as per-case criteria have settings of their own.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa

from gradebook.rubrics.check_kit.check import CheckFunction, CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.rows import PASSED, RowFinding, gather_rows

Relation = Literal["less than", "at least"]
FOLLOWED = PASSED
BLANK = RowFinding(False, "the output is blank, and a blank output follows no instruction")


def register_instruction(
    name: str, settings_model: type[CheckSettings], *examples: Example
) -> Callable[[Callable[[str, Any], RowFinding]], CheckFunction]:
    """Register the decorated function, which judges one output's text. The text is never blank."""

    def register(judge: Callable[[str, Any], RowFinding]) -> CheckFunction:
        @register_check(name, settings_model, cost="rows", examples=examples)
        @functools.wraps(judge)
        def check(shard: pa.Table, settings: Any) -> CheckVerdicts:
            texts = shard.column("output").to_pylist()
            return gather_rows(BLANK if is_blank(text) else judge(text, settings) for text in texts)

        return check

    return register


def register_column_instruction(
    name: str, settings_model: type[CheckSettings], *examples: Example
) -> Callable[[Callable[[list[str], Any], list[RowFinding]]], CheckFunction]:
    """Register the decorated function, which judges the texts of all outputs. Its findings for blank texts are
    ignored.
    """

    def register(judge: Callable[[list[str], Any], list[RowFinding]]) -> CheckFunction:
        @register_check(name, settings_model, cost="rows", examples=examples)
        @functools.wraps(judge)
        def check(shard: pa.Table, settings: Any) -> CheckVerdicts:
            texts = shard.column("output").to_pylist()
            findings = judge(texts, settings)
            return gather_rows(BLANK if is_blank(text) else findings[row] for row, text in enumerate(texts))

        return check

    return register


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def judge_relation(count: int, relation: Relation, bound: int, unit: str, units: str) -> RowFinding:
    """Compare a count with the bound: below it for "less than", at or above it for "at least"."""
    is_followed = count < bound if relation == "less than" else count >= bound
    return FOLLOWED if is_followed else _miss(count, f"{relation} {bound}", unit, units)


def judge_exact(count: int, wanted: int, unit: str, units: str) -> RowFinding:
    """Compare a count with the exact number required."""
    return FOLLOWED if count == wanted else _miss(count, f"exactly {wanted}", unit, units)


def _miss(count: int, wanted: str, unit: str, units: str) -> RowFinding:
    return RowFinding(False, f"{count} {unit if count == 1 else units}, {wanted} required")
