"""Untrusted texts made readable on a page: Markdown and JSON laid out, images and sounds shown."""

import json
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.media_parts import Medium
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.reporting.drawing.marking import Segment, segments_of, visible
from gradebook.tasks.reporting.sections.answers import Turn, turns_of
from gradebook.tasks.reporting.sections.examples import MOST_CARDS, StepCards, step_cards

MOST_CHARACTERS = 200_000  # shown of one text
MOST_LAID_OUT = 20_000  # characters of a text of which more than the plain text is shown
MOST_MEDIA = 8  # of a sheet
MOST_MEDIUM_CHARACTERS = 14_000_000  # of one as base64: 10 MB
# Neither links nor images: a page loads nothing, and a rater is led nowhere. Definitions of links would be hidden.
_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link", "autolink", "reference"])
)
_SIGN_OF_MARKDOWN = re.compile(
    r"^ {0,3}(#{1,6} |[-*+] |\d+[.)] |```|~~~|> |\|.*\|)|\*\*[^*\n]+\*\*|`[^`\n]+`", re.MULTILINE
)
_SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}


@dataclass(frozen=True, slots=True)
class Shown:
    """Image or sound. address: a `data:` address; None: reason says why it is not shown."""

    kind: str
    placeholder: str
    address: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Readable:
    """One text. laid_out: its Markdown or JSON as markup; None for plain prose."""

    segments: tuple[Segment, ...]
    laid_out: Markup | None
    media: tuple[Shown, ...] = ()


class ReadableCase(NamedTuple):
    """Prompt and output. media: of the prompt."""

    turns: tuple[Turn, ...]
    media: tuple[Shown, ...]
    output: Readable


def readable(text: str) -> Readable:
    """A text as it is, and laid out if it is JSON or looks like Markdown. Nothing in it becomes markup of its own."""
    return Readable(segments_of(text, most=MOST_CHARACTERS), _laid_out(text) if len(text) <= MOST_LAID_OUT else None)


def readable_case(prompt: str | None, output: str, audio: str | None, files: MediaFiles) -> ReadableCase:
    """Turns of a prompt, its images and sounds, and an output with its own. audio: sound of a transcript."""
    case = files.show(Case(prompt, output))
    media: dict[str, list[Shown]] = {"prompt": [], "output": []}
    for each in case.media[:MOST_MEDIA]:
        media[each.place].append(_shown(each))
    if case.media_fault:
        media["output"].append(Shown("", "", None, case.media_fault))
    if audio:
        spoken = files.show(Case(None, audio))
        media["output"].extend(_shown(each) for each in spoken.media)
        media["output"].extend([Shown("", "", None, spoken.media_fault)] if spoken.media_fault else [])
    text = replace(readable(case.output), media=tuple(media["output"]))
    return ReadableCase(turns_of(case.prompt), tuple(media["prompt"]), text)


def steps_shown(steps: str | None, most: int = MOST_CARDS, only: Collection[int] | None = None) -> StepCards:
    """Steps of an agent as cards. steps: JSON, as sheets have it; None: there are none. most: cards from each end.

    only: numbers of the steps to show in place of these.
    """
    found = json.loads(steps) if steps else []
    same = dict.fromkeys(("agent", "latency_ms", "tokens", "cost_usd")) | {"step_count": len(found)}
    same["error_count"] = sum(step["error"] is not None for step in found)
    last_from = len(found) - most
    shown = (place < most or place >= last_from if only is None else place in only for place in range(len(found)))
    rows = [same | step | {"step_index": place} for place, step in enumerate(found)]
    return step_cards(list(compress(rows, shown)), ())


def _shown(medium: Medium) -> Shown:
    if medium.address is not None:
        return Shown(medium.kind, medium.placeholder, None, f"{medium.address} (not loaded)")
    try:
        part = medium.parts[1]
    except UnreadableMedia as fault:
        return Shown(medium.kind, medium.placeholder, None, str(fault))
    if medium.kind == "image":
        address = part["image_url"]["url"]
    else:
        sound = part["input_audio"]
        address = f"data:{_SOUNDS[sound['format']]};base64,{sound['data']}"
    if len(address) > MOST_MEDIUM_CHARACTERS:
        return Shown(medium.kind, medium.placeholder, None, f"{medium.name} (too large for this page)")
    return Shown(medium.kind, medium.placeholder, address)


def _laid_out(text: str) -> Markup | None:
    if text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            return Markup("<pre>{}</pre>").format(visible(json.dumps(json.loads(text), indent=2, ensure_ascii=False)))
    if not _SIGN_OF_MARKDOWN.search(text):
        return None
    tokens = _MARKDOWN.parse(visible(text))
    for token in tokens:
        _plain_tag(token)
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # html is off: all text is escaped


def _plain_tag(token: Token) -> None:
    """Keep headings out of the page's own order, and attributes (a column's style, a code's class) out of it."""
    is_heading = token.type.startswith("heading")
    token.attrs = {"class": "heading"} if is_heading and token.nesting == 1 else {}
    token.tag = "p" if is_heading else token.tag
    token.info = ""
