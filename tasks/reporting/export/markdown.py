"""Markdown of which inputs can't make anything but text: for a comment, and for Prefect's artifacts."""

import re
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from gradebook.tasks.reporting.drawing.figures import Table

MOST_LETTERS, MOST_CELL_LETTERS = 400, 100  # of one text of an input, in a sentence and in a table
_JOINER = "\u2060"  # no letter, and nothing to be seen: it parts what would be a mention, a link or an emoji
_ENTITIES = {"|": "&#124;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
# A line that begins with one of these would be a heading, a list, or make a heading of the line above it.
_AT_A_START = re.compile(r"(?=#{1,6}(?:\s|$)|[-+](?:\s|$)|-{2,}|=+\s*$)")
_NUMBERED = re.compile(r"\d{1,9}(?=[.)](?:\s|$))")
# Dollars before a number begin no formula and, after a space, end none; an underscore within a word marks nothing.
_MARKS = re.compile(r"[\\`*\[\]~]|(?<=\S)\$|\$(?!\d)|(?<![^\W_])_|_(?![^\W_])")
# @somebody, #12, GH-12, http://, www. and :emoji: are found in the text that a reader sees, however it was written.
_JOINED = re.compile(r"(?<=[@#])(?=\w)|(?<=GH-)(?=\d)|(?<=:)(?=//|[\w+-]+:)|(?<=www)(?=\.)", re.IGNORECASE)


def escaped(value: object, most_letters: int = MOST_LETTERS) -> Markup:
    """Any value as text of Markdown, on one line: in a table's cell, a list or a sentence it is what it says.

    GitHub's Markdown and CommonMark show the same letters, but for those that would be no mark: a control character or
    line break is a space, and a long text is cut. What is `Markup` already stays as it is.
    """
    if isinstance(value, Markup):
        return value
    text = "".join(letter if letter.isprintable() else " " for letter in str(value)).strip()
    text = text if len(text) <= most_letters else f"{text[: most_letters - 1]}…"
    text = _JOINED.sub(_JOINER, text)
    text = _MARKS.sub(lambda found: f"\\{found[0]}", text)
    text = _unlisted(text)
    return Markup("".join(_ENTITIES.get(letter, letter) for letter in text))


def command(*words: str) -> Markup:
    """A command of a shell as code, of which no word can end the code or the table's cell that it stands in."""
    line = "".join(letter if letter.isprintable() else " " for letter in shlex.join(words))
    return Markup(f"`` {line.replace('`', chr(39)).replace('|', '¦')} ``")


def table_text(table: Table) -> Markup:
    """A table as Markdown, numbers to the right; no caption."""
    rule = ["---:" if column.is_number else "---" for column in table.columns]
    texts = [[column.heading for column in table.columns], *table.rows]
    head, *rows = [[str(escaped(text, MOST_CELL_LETTERS)) for text in row] for row in texts]
    return Markup("\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows)))


def render_markdown(template: str, values: Mapping[str, Any]) -> str:
    """A text of a template of pages/, in which every value is escaped as Markdown."""
    return _environment().get_template(template).render(**values)


def _unlisted(text: str) -> str:
    """The text with a backslash before what would make a list or a heading of it at the start of a line."""
    if number := _NUMBERED.match(text):
        return f"{number[0]}\\{text[number.end() :]}"
    return f"\\{text}" if _AT_A_START.match(text) else text


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(resources.files("gradebook.pages"))),
        autoescape=True,  # it leaves Markup alone, which is what `finalize` makes of every value
        finalize=escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"table": table_text}
    found.globals |= {"command": command}
    return found
