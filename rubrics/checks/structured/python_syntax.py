"""Check that an output is Python."""

import ast
import re
from functools import partial

import pyarrow as pa

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.stack import on_a_full_stack
from gradebook.rubrics.checks.structured.fences import CannotTell, Misfit, SyntaxSettings, judge_syntax

MOST_PYTHON = 100_000
HEAD_CHARACTERS = 400
FAR_FROM_THE_CUT = 100
STR_ESCAPES = frozenset("\\'\"\n\rabfnrtv01234567xNuU")
BYTES_ESCAPES = STR_ESCAPES - frozenset("NuU")
ESCAPE = re.compile(r"\\(?:[4-7][0-7]{2}|[\s\S])")
# Every quantifier is possessive or followed by something it cannot match, so a text is scanned once.
LITERAL = re.compile(
    r"""
    \#[^\n]*
    | (?P<prefix> (?<![A-Za-z0-9_]) [A-Za-z]{1,2} )?
      (?P<body> \"{3} (?: [^"\\]++ | \\[\s\S] | "(?!"") )*+ (?: \"{3} )?
              | '{3}  (?: [^'\\]++ | \\[\s\S] | '(?!'') )*+ (?: '{3} )?
              | "     (?: [^"\\\n]++ | \\[\s\S] )*+ "?
              | '     (?: [^'\\\n]++ | \\[\s\S] )*+ '? )
    | (?P<number> (?<![A-Za-z0-9_.]) [0-9] [A-Za-z0-9_.]*? (?= (?:and|else|for|if|in|is|not|or)\b ) )
    """,
    re.VERBOSE,
)


@register_check(
    "python_valid",
    SyntaxSettings,
    cost="heavy",
    examples=(
        Example("```python\nprint(1 + 1)\n```", True),
        Example("print(1 + 1", False),
        Example("print(1 + 1)", False, {"fence": "required"}),
    ),
)
def python_valid(shard: pa.Table, settings: SyntaxSettings) -> CheckVerdicts:
    """The whole output parses as a Python module, bare or in a code fence.

    The text is parsed by the Python that runs gradebook, and neither compiled nor run: a `return` outside a function
    and undefined names pass. A bare word is Python too. Code that only causes a warning, such as an unknown escape,
    passes. More than 100,000 characters, or nesting that is too deep for the parser, stay unscored. The evidence gives
    the place and the reason.
    """
    return judge_syntax(shard, settings, "Python", MOST_PYTHON, _read_python)


def _read_python(text: str) -> None:
    if "\x00" in text:
        raise Misfit("found a NUL character, expected none", text.count("\n", 0, text.index("\x00")) + 1)
    quiet = LITERAL.sub(_without_warnings, text)
    try:
        _parse(quiet)
    except (RecursionError, MemoryError):
        _refuse_early_fault(quiet)
        raise CannotTell("nested too deeply to parse") from None


def _parse(text: str) -> None:
    """Parse a text. Raises `Misfit`, and `RecursionError` or `MemoryError` if the parser gives up."""
    try:
        on_a_full_stack(partial(ast.parse, text))
    except SyntaxError as error:
        raise Misfit(error.msg, error.lineno, error.offset) from None
    except ValueError as error:
        raise Misfit(str(error)) from None


def _refuse_early_fault(text: str) -> None:
    """Raise `Misfit` if the beginning alone is clearly wrong: the parser gives up on a long line of prose."""
    head = text[:HEAD_CHARACTERS]
    try:
        _parse(head)
    except Misfit as misfit:
        lines = head.split("\n")
        place = sum(len(line) + 1 for line in lines[: (misfit.line or 1) - 1]) + (misfit.column or 0)
        if misfit.reason.startswith("invalid syntax") and place < len(head) - FAR_FROM_THE_CUT:
            raise
    except (RecursionError, MemoryError):
        return


def _without_warnings(match: re.Match[str]) -> str:
    """Replace a literal with one that parses the same without a warning.

    Warnings are configured for the whole process: one could become an error or appear on the screen.
    """
    if match["number"] is not None:
        return match[0] + " "  # "1if x else 2"
    prefix = (match["prefix"] or "").lower()
    if match["body"] is None or "r" in prefix:
        return match[0]
    known = BYTES_ESCAPES if "b" in prefix else STR_ESCAPES
    return ESCAPE.sub(lambda escape: escape[0] if _is_known(escape[0], known) else "_" * len(escape[0]), match[0])


def _is_known(escape: str, known: frozenset[str]) -> bool:
    return len(escape) == 2 and escape[1] in known
