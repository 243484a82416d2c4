"""Markdown in which text from inputs can't become markup: for comments and Prefect's artifacts."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from gradebook.rubrics.text.tables import Table
from gradebook.tasks.system.shell import shell_line

MOST_LETTERS, MOST_CELL_LETTERS = 400, 100  # of a text from an input, in a sentence and in a table
_JOINER = "\u2060"  # invisible; breaks text that would become a mention, a link or an emoji
_ENTITIES = {"|": "&#124;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
# At the start of a line these would make a heading, a list, or a heading of the line above.
_AT_A_START = re.compile(r"(?=#{1,6}(?:\s|$)|[-+](?:\s|$)|-{2,}|=+\s*$)")
_NUMBERED = re.compile(r"\d{1,9}(?=[.)](?:\s|$))")
# A dollar before a number begins no formula and, after a space, ends none; an underscore within a word has no effect.
_MARKS = re.compile(r"[\\`*\[\]~]|(?<=\S)\$|\$(?!\d)|(?<![^\W_])_|_(?![^\W_])")
# GitHub finds @somebody, #12, GH-12, http://, www. and :emoji: in the rendered text, even if it was escaped.
_JOINED = re.compile(r"(?<=[@#])(?=\w)|(?<=GH-)(?=\d)|(?<=:)(?=//|[\w+-]+:)|(?<=www)(?=\.)", re.IGNORECASE)


def escaped(value: object, most_letters: int = MOST_LETTERS) -> Markup:
    """Escape a value as Markdown text on one line, for a table cell, a list or a sentence.

    GitHub's Markdown and CommonMark show the same characters, except that control characters and line breaks become
    spaces and a long text is cut. `Markup` is returned unchanged.
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
    """Shell command as inline code; no word of it can end the code or its table cell."""
    line = "".join(letter if letter.isprintable() else " " for letter in shell_line(words))
    return Markup(f"`` {line.replace('`', chr(39)).replace('|', '¦')} ``")


def table_text(table: Table) -> Markup:
    """Table as Markdown, numbers right-aligned, without caption."""
    rule = ["---:" if column.is_number else "---" for column in table.columns]
    texts = [[column.heading for column in table.columns], *table.rows]
    head, *rows = [[str(escaped(text, MOST_CELL_LETTERS)) for text in row] for row in texts]
    return Markup("\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows)))


def render_markdown(template: str, values: Mapping[str, Any]) -> str:
    """Render a template of pages/ with every value escaped as Markdown."""
    return _environment().get_template(template).render(**values)


def _unlisted(text: str) -> str:
    """Text with a backslash before a marker that would make it a list or a heading at the start of a line."""
    if number := _NUMBERED.match(text):
        return f"{number[0]}\\{text[number.end() :]}"
    return f"\\{text}" if _AT_A_START.match(text) else text


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(resources.files("gradebook.pages"))),
        autoescape=True,  # leaves Markup unchanged; `finalize` turns every value into Markup
        finalize=escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"table": table_text}
    found.globals |= {"command": command}
    return found
