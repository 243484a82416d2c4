"""Text that may be wrapped in one Markdown code fence, for the syntax checks."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import pyarrow as pa

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.rows import RowFinding, gather_rows

Fence = Literal["optional", "required", "never"]

OPENING = re.compile(r"(?:[ \t\r]*\n)* {0,3}(`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})[^\n]*\n?")
CLOSING = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t\r]*$", re.MULTILINE)


class SyntaxSettings(CheckSettings):
    """Settings shared by the syntax checks."""

    fence: Fence = "optional"
    """whether one Markdown code fence encloses the whole text: `optional`, `required` or `never`"""


class Misfit(Exception):
    """The text is not what was expected.

    line: from 1, within the text that was read; None if the fault has no line.
    """

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason, line, column)
        self.reason = reason
        self.line = line
        self.column = column


class CannotTell(Exception):
    """The text cannot be read far enough to decide."""


class _Body(NamedTuple):
    text: str
    lines_before: int


def judge_syntax(
    shard: pa.Table, settings: SyntaxSettings, name: str, most: int, read: Callable[[str], None]
) -> CheckVerdicts:
    """Check the syntax of each output, inside its code fence.

    name: expected format, e.g. "XML". most: number of characters above which an output stays unscored. read: raises
    `Misfit` or `CannotTell`; never called with a blank text.
    """
    texts = text_column(shard, "output").to_pylist()
    return gather_rows(_finding(text, settings.fence, name, most, read) for text in texts)


def _finding(text: str, fence: Fence, name: str, most: int, read: Callable[[str], None]) -> RowFinding:
    lines_before = 0
    try:
        body, lines_before = _unfenced(text, fence)
        if not body or body.isspace():
            raise Misfit(f"empty, expected {name}")
        if len(body) > most:
            raise CannotTell(f"too long to parse: found {len(body):,} characters, at most {most:,} are read")
        read(body)
    except Misfit as misfit:
        return RowFinding(False, _place(misfit, lines_before) + misfit.reason)
    except CannotTell as error:
        return RowFinding(None, reason=str(error))
    return RowFinding(True)


def _place(misfit: Misfit, lines_before: int) -> str:
    if misfit.line is None:
        return ""
    column = "" if misfit.column is None else f" column {misfit.column}"
    return f"line {misfit.line + lines_before}{column}: "


def _unfenced(text: str, fence: Fence) -> _Body:
    """Content of the fence, or the text itself without one. Raises `Misfit` if `fence` is violated."""
    opening = OPENING.match(text)
    if opening is None:
        if fence == "required":
            raise Misfit("found no code fence around the text, expected one")
        return _Body(text, 0)
    if fence == "never":
        raise Misfit("found a code fence, expected none")
    marks = opening[1]
    closings = (mark for mark in CLOSING.finditer(text, opening.end()) if _closes(mark[1], marks))
    closing = next(closings, None)
    if closing is None:
        raise Misfit("found a code fence that is not closed, expected it closed")
    if text[closing.end() :].strip():
        raise Misfit("found text after the code fence, expected nothing there")
    return _Body(text[opening.end() : closing.start()], text.count("\n", 0, opening.end()))


def _closes(marks: str, opening: str) -> bool:
    return marks[0] == opening[0] and len(marks) >= len(opening)
