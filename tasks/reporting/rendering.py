"""Rendering of pages and Markdown: templates, styles and scripts of pages/, and untrusted texts made safe.

In HTML, evidence is marked, long texts are cut and invisible characters written out. In Markdown, of comments and
Prefect's artifacts, text from inputs can't become markup.
"""

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup, escape

from gradebook.rubrics.prompts.reply_parser import read_requirements
from gradebook.rubrics.text.tables import Table
from gradebook.rubrics.text.wording import (
    counted,
    difference_interval_words,
    p_words,
    price_words,
    rate_words,
    score_words,
    signed_words,
    sqrt_words,
)
from gradebook.tasks.system.shell import shell_line


def page_text(file: str) -> str:
    """Text of a file in pages/."""
    return resources.files("gradebook.pages").joinpath(file).read_text(encoding="utf-8")


def page_values(file: str) -> Any:
    """Values of a YAML file in pages/, with libyaml: ten times as fast."""
    return yaml.load(page_text(file), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe loaders


@cache
def theme() -> dict[str, dict[str, str]]:
    """Colours by name, for the light and the dark scheme."""
    colours: dict[str, dict[str, str]] = page_values("theme.yaml")
    return colours


def _shown(value: Any) -> Any:
    """Value as shown by a template, with invisible characters written out: no text can hide or reverse other text."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def breakable(name: str) -> Markup:
    """Name as HTML that may be broken after an underscore, a slash or a hyphen, and nowhere else."""
    return Markup(re.sub(r"(?<=[_/\-])(?=\w)", "<wbr>", str(escape(visible(name)))))


@cache
def environment() -> jinja2.Environment:
    """Jinja environment of the pages' templates; all values are escaped."""
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(resources.files("gradebook.pages"))),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    filters = {"score": score_words, "signed": signed_words, "p": p_words, "sd": sqrt_words, "breakable": breakable}
    jinja.filters |= (
        {"breakable": breakable} | filters | {"rate": rate_words, "usd": price_words, "count": "{:,}".format}
    )
    jinja.globals |= {
        "span": difference_interval_words,
        "theme": theme(),
        "styles": styles,
        "script": script,
        "digest": digest,
        "counted": counted,
        "shell_line": shell_line,
    }
    return jinja


def render(template: str, **values: Any) -> str:
    """Render a page from a template."""
    return environment().get_template(template).render(**values)


@cache
def styles() -> str:
    """All files of pages/styles, concatenated."""
    return _joined("styles", "css")


@cache
def script() -> str:
    """All files of pages/scripts, concatenated: the only script of a page."""
    return _joined("scripts", "js")


def digest(text: str) -> str:
    """Hash source of a script for the page's Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _joined(folder: str, ending: str) -> str:
    files = sorted(Path(str(resources.files("gradebook.pages"))).joinpath(folder).glob(f"*.{ending}"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


MOST_SHOWN = 6_000  # characters of a text
MOST_SEARCHED = 200_000  # characters of a text searched for evidence regardless of case, spaces and width
AROUND = 150  # characters shown before and after evidence far down in a long text
MOST_MARKED = 600  # characters of such evidence
MOST_QUOTES = 300  # searched for in a text; a judge may give 20 per criterion

# Invisible characters that reorder, hide or split a text: controls, direction overrides and isolates, tags. Direction
# marks and joiners are allowed: Arabic, Hindi and emoji need them.
_TRICK = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_CHECK_WORD = re.compile(r"""(?<!\w)(?:'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)")(?!\w)""")

Span = tuple[int, int]  # start, and end (exclusive)
Evidence = tuple[str, str]  # criterion's name, quote


@dataclass(frozen=True, slots=True)
class Segment:
    """Piece of a text. criteria: names of the criteria with this evidence; left_out: characters that it replaces."""

    text: str
    criteria: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def diff(self) -> tuple[tuple[str, str], ...]:
        """Lines of a unified diff, each with its kind: added, removed, place or same; empty for any other text."""
        if not _HUNK.search(self.text):
            return ()
        return tuple((_line_kind(line), line) for line in self.text.split("\n"))


_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)


def _line_kind(line: str) -> str:
    if line.startswith(("@@", "diff ", "--- ", "+++ ")):
        return "place"
    return "added" if line.startswith("+") else "removed" if line.startswith("-") else "same"


def laid_out_json(text: str) -> str | None:
    """JSON object or list with a line for each value; None for other texts, and for JSON that a line may break."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def visible(text: str) -> str:
    """Text with deceptive invisible characters written out: a null byte as ␀, a direction override as [U+202E]."""
    return _TRICK.sub(_written_out, text.replace("\r\n", "\n"))


def whole_text(text: str) -> str:
    """Text from JSON with lone surrogates replaced, because no file can store them."""
    return text.encode(errors="replace").decode()


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"[U+{code:04X}]"


def quotes_of(evidence: str | None, method: str) -> tuple[str, ...]:
    """Quotes of a verdict's evidence to search for in the output. evidence: JSON list of quotes, or a check's words."""
    if not evidence or method == "ratings":
        return ()
    quotes = judge_quotes(evidence)
    if quotes is not None:
        return quotes
    if method != "check":
        return (evidence,)
    return tuple(_unescaped(single or double) for single, double in _CHECK_WORD.findall(evidence))


def judge_quotes(evidence: str) -> tuple[str, ...] | None:
    """Quotes of a judge, stored as a JSON list, also of requirements; None if the evidence is another kind of text."""
    if requirements := read_requirements(evidence):
        return tuple(whole_text(entry.quote) for entry in requirements if entry.quote.strip())
    if not evidence.startswith("["):
        return None
    try:
        quotes = json.loads(evidence)
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(quotes, list) and all(isinstance(quote, str) for quote in quotes)
    return tuple(whole_text(quote) for quote in quotes if quote.strip()) if is_list else None


def _unescaped(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word)


def segments_of(text: str, evidence: Iterable[Evidence] = (), most: int = MOST_SHOWN) -> tuple[Segment, ...]:
    """Split a text into pieces, each with one set of criteria, and write out invisible characters.

    Of a text with more than `most` characters the beginning is shown, and evidence farther down with its surroundings.
    """
    searched = _Searched(text)
    spans: dict[Span, list[str]] = {}
    for name, quote in islice(evidence, MOST_QUOTES):
        span = searched.find(quote)
        if span is not None and name not in spans.setdefault(span, []):
            spans[span].append(name)
    return tuple(_segments(text, spans, _windows(len(text), sorted(spans), most)))


def _segments(text: str, spans: dict[Span, list[str]], windows: Sequence[Span]) -> Iterator[Segment]:
    end = 0
    for first, last in windows:
        if first > end:
            yield Segment("", left_out=first - end)
        cuts = {position for span in spans for position in span if first < position < last} | {first, last}
        bounds = sorted(cuts)
        for start, stop in pairwise(bounds):
            names = [name for span, names in spans.items() if span[0] <= start < span[1] for name in names]
            yield Segment(visible(text[start:stop]), tuple(dict.fromkeys(names)))
        end = last
    if end < len(text):
        yield Segment("", left_out=len(text) - end)


def _windows(length: int, spans: Sequence[Span], most: int) -> list[Span]:
    """Parts of a text that are shown, in order and without overlaps. spans: of evidence, in order."""
    if length <= most:
        return [(0, length)]
    left, chosen = most // 2, []
    for start, stop in spans:
        window = (max(0, start - AROUND), min(length, min(stop, start + MOST_MARKED) + AROUND))
        size = window[1] - window[0]
        if stop > most // 2 and size <= left:
            chosen.append(window)
            left -= size
    windows = [(0, most // 2 + left)]
    for start, stop in chosen:
        if start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(stop, windows[-1][1]))
        else:
            windows.append((start, stop))
    return windows


class _Searched:
    """Text to search for quotes: first exactly, then regardless of case, spaces and width."""

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, quote: str) -> Span | None:
        """First position of a quote, preferably as whole words; None if it is absent."""
        span = _find(self._text, quote)
        if span is not None or not quote.strip():
            return span
        written, positions = self._folded
        for wanted in dict.fromkeys((_fold(quote)[0].strip(), _fold(_decoded(quote))[0].strip())):
            match = _find(written, wanted) if wanted else None
            if match is not None:
                return positions[match[0]], positions[match[1] - 1] + 1
        return None

    @cached_property
    def _folded(self) -> tuple[str, list[int]]:
        return _fold(self._text[:MOST_SEARCHED])


def _find(text: str, quote: str) -> Span | None:
    if not quote or quote not in text:
        return None
    whole = re.search(rf"(?<!\w){re.escape(quote)}(?!\w)", text)
    start = whole.start() if whole else text.index(quote)
    return start, start + len(quote)


def _fold(text: str) -> tuple[str, list[int]]:
    """Text in one case, with folded spaces and without zero-width characters, and each letter's original position."""
    letters: list[str] = []
    positions: list[int] = []
    for position, character in enumerate(text):
        if unicodedata.category(character) == "Cf":
            continue
        for letter in unicodedata.normalize("NFKC", character).casefold():
            plain = " " if letter.isspace() else letter
            if plain != " " or not letters or letters[-1] != " ":
                letters.append(plain)
                positions.append(position)
    return "".join(letters), positions


def _decoded(quote: str) -> str:
    r"""Quote with JSON escapes decoded, `\n` for a line feed: judges see outputs as JSON."""
    try:
        return str(json.loads(f'"{quote}"', strict=False))
    except ValueError:
        return quote


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
    text = _MARKS.sub(lambda match: f"\\{match[0]}", text)
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
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(resources.files("gradebook.pages"))),
        autoescape=True,  # leaves Markup unchanged; `finalize` turns every value into Markup
        finalize=escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"table": table_text}
    jinja.globals |= {"command": command}
    return jinja
