"""Instructions about format and wording.

formats  bullets, highlights, sections, titles, placeholders, JSON
wording  postscript, two responses, repeated prompt, ending, quotation, no comma
"""

import re
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import StringConstraints

from gradebook.rubrics.check_kit.check import CheckSettings, Example, RowFinding
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS
from gradebook.rubrics.check_kit.json_text import NotJson, parse_json
from gradebook.rubrics.check_kit.measures import Count
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.checks.ifeval.instruction import (
    FOLLOWED,
    SPECIAL,
    StrippedKeyword,
    find_keywords,
    judge_exact,
    judge_relation,
    register_column_instruction,
    register_instruction,
)

# Each is linear: every repetition ends at a line end or at the next mark of its own.
STAR_BULLET = re.compile(r"\n[^\S\n]*\*[^*].*")
DASH_BULLET = re.compile(r"\n[^\S\n]*-")
HIGHLIGHT = re.compile(r"\*([^\n*]*)\*")
DOUBLE_HIGHLIGHT = re.compile(r"\*\*([^\n*]*)\*\*")
SECTION_NUMBER = r"\s?\d+"
BRACKETED = re.compile(r"\[[^\]\n]*\]?")
ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
FENCES = ("```json", "```Json", "```JSON", "```")


class PlaceholderNumberSettings(CheckSettings):
    """Settings of `detectable_content:number_placeholders`."""

    num_placeholders: Count
    """minimum number of placeholders"""


class BulletNumberSettings(CheckSettings):
    """Settings of `detectable_format:number_bullet_lists`."""

    num_bullets: Count
    """exact number of bullets"""


class HighlightNumberSettings(CheckSettings):
    """Settings of `detectable_format:number_highlighted_sections`."""

    num_highlights: Count
    """minimum number of highlights"""


class SectionNumberSettings(CheckSettings):
    """Settings of `detectable_format:multiple_sections`."""

    section_spliter: StrippedKeyword
    """word before each section's number, such as `Section`: a pattern in RE2's syntax, case-sensitive"""
    num_sections: Count
    """minimum number of sections"""


@register_instruction(
    "detectable_content:number_placeholders",
    PlaceholderNumberSettings,
    Example("Dear [name], I live in [city].", True, {"num_placeholders": 2}),
    Example("Dear [name], I live in [city\n].", False, {"num_placeholders": 2}),
)
def number_placeholders(text: str, settings: PlaceholderNumberSettings) -> RowFinding:
    """The output has at least `num_placeholders` placeholders: texts in square brackets, on one line.

    A placeholder ends at the first closing bracket, so "[a [b]]" is one; "[]" is one too, and so is a Markdown link's
    text.
    """
    count = sum(bracketed[-1] == "]" for bracketed in BRACKETED.findall(text))
    return judge_relation(count, "at least", settings.num_placeholders, "placeholder", "placeholders")


@register_instruction(
    "detectable_format:number_bullet_lists",
    BulletNumberSettings,
    Example("Two:\n* one\n - two", True, {"num_bullets": 2}),
    Example("Two:\n* one\n** two", False, {"num_bullets": 2}),
)
def number_bullet_lists(text: str, settings: BulletNumberSettings) -> RowFinding:
    """The output has exactly `num_bullets` bullets.

    A bullet is a line that starts, after any whitespace, with an asterisk not followed by a second one, or with a
    hyphen: "*one*", "-5 degrees" and the rule "---" are bullets, "**one**", "+ one" and "1. one" are not.
    """
    lines = "\n" + text
    count = len(STAR_BULLET.findall(lines)) + len(DASH_BULLET.findall(lines))
    return judge_exact(count, settings.num_bullets, "bullet", "bullets")


@register_instruction(
    "detectable_format:constrained_response",
    CheckSettings,
    Example("Well: My answer is maybe.", True),
    Example("My answer is yes!", False),
)
def constrained_response(text: str, settings: CheckSettings) -> RowFinding:
    """The output contains one of the three answers: "My answer is yes.", "My answer is no." or "My answer is maybe.".

    They match literally, including the period; other text may surround them.
    """
    if any(answer in text for answer in ANSWERS):
        return FOLLOWED
    return RowFinding(False, f"none of {', '.join(ANSWERS)}")


@register_instruction(
    "detectable_format:number_highlighted_sections",
    HighlightNumberSettings,
    Example("*One* and *two* words.", True, {"num_highlights": 2}),
    Example("*One* and * * or ** words.", False, {"num_highlights": 2}),
)
def number_highlighted_sections(text: str, settings: HighlightNumberSettings) -> RowFinding:
    """The output has at least `num_highlights` highlights: non-blank texts between two asterisks on one line.

    A text between two pairs of asterisks is one as well. As in IFEval, the asterisk of a bullet pairs with the next one
    on its line: "* a *b* c" has one highlight, which is "a".
    """
    highlights = (*HIGHLIGHT.findall(text), *DOUBLE_HIGHLIGHT.findall(text))
    count = sum(1 for highlight in highlights if highlight.strip())
    return judge_relation(count, "at least", settings.num_highlights, "highlight", "highlights")


@register_column_instruction(
    "detectable_format:multiple_sections",
    SectionNumberSettings,
    Example("Section 1\nOne.\nSection 2\nTwo.", True, {"section_spliter": "Section", "num_sections": 2}),
    Example("SECTION 1\nOne.\nSection two", False, {"section_spliter": "SECTION", "num_sections": 2}),
)
def multiple_sections(texts: list[str], settings: SectionNumberSettings) -> list[RowFinding]:
    """The output has at least `num_sections` sections: the word `section_spliter`, at most one space, and a number.

    The word is case-sensitive, matches anywhere in a line, and each occurrence counts. It is a pattern in RE2's syntax,
    as it is a pattern in IFEval. A number consists of digits of any script.
    """
    counts = _count_sections(texts, settings.section_spliter)
    return [judge_relation(count, "at least", settings.num_sections, "section", "sections") for count in counts]


def _count_sections(texts: list[str], word: str) -> list[int]:
    if SPECIAL.search(word):
        pattern = rf"(?:{word})[{WHITESPACE}]?\p{{Nd}}+"
        return [*pc.count_substring_regex(pa.array(texts, pa.string()), pattern).to_pylist()]
    return [len(re.findall(word + SECTION_NUMBER, text)) for text in texts]


@register_instruction(
    "detectable_format:json_format",
    CheckSettings,
    Example('```json\n{"ticket": 7}\n```', True),
    Example('Here it is: {"ticket": 7}', False),
)
def json_format(text: str, settings: CheckSettings) -> RowFinding:
    """The whole output is JSON, bare or in a code fence.

    The fence may be three backticks alone, or name JSON in one of the spellings json, Json and JSON. Any kind of JSON
    passes, including a bare number. NaN, Infinity and more than 200 levels of nesting are refused; IFEval's reader
    accepts them.
    """
    inner = text.strip()
    for fence in FENCES:
        inner = inner.removeprefix(fence)
    try:
        parse_json(inner.removesuffix("```").strip())
    except NotJson as error:
        return RowFinding(False, str(error))
    return FOLLOWED


@register_instruction(
    "detectable_format:title",
    CheckSettings,
    Example("<<Ode to joy>>\nO friends!", True),
    Example("<< >>\nO friends!", False),
)
def title(text: str, settings: CheckSettings) -> RowFinding:
    """The output has a title in double angular brackets, on one line and not blank: <<Ode to joy>>."""
    is_found = "<<" in text and any(_has_title(line) for line in text.split("\n"))
    return FOLLOWED if is_found else RowFinding(False, "no text in << and >> on one line")


def _has_title(line: str) -> bool:
    """Whether the text from the first << to the last >> of a line, the widest candidate, is a title."""
    start, stop = line.find("<<"), line.rfind(">>")
    return 0 <= start < stop - 2 and bool(line[start : stop + 2].lstrip("<").rstrip(">").strip())


Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
POSTSCRIPTS = {"P.S.": re.compile(r"p\.\s?s\."), "P.P.S": re.compile(r"p\.\s?p\.\s?s")}
DIVIDER = "******"


class PostscriptSettings(CheckSettings):
    """Settings of `detectable_content:postscript`."""

    postscript_marker: StrippedKeyword
    """start of the postscript: `P.S.`, `P.P.S`, or a pattern in RE2's syntax; in any case"""


class RepeatedPromptSettings(CheckSettings):
    """Settings of `combination:repeat_prompt`."""

    prompt_to_repeat: Phrase
    """text that the output has to start with, in any case"""


class EndPhraseSettings(CheckSettings):
    """Settings of `startend:end_checker`."""

    end_phrase: Phrase
    """text that the output has to end with, in any case"""


@register_column_instruction(
    "detectable_content:postscript",
    PostscriptSettings,
    Example("See you.\np. s. Bring bread.", True, {"postscript_marker": "P.S."}),
    Example("See you.\nPS: Bring bread.", False, {"postscript_marker": "P.S."}),
)
def postscript(texts: list[str], settings: PostscriptSettings) -> list[RowFinding]:
    """The postscript's marker occurs, in any case, anywhere in the output, as in IFEval.

    "P.S." needs both periods and "P.P.S" the first two, and a space may separate its letters. Any other marker is a
    pattern in RE2's syntax, as it is a pattern in IFEval, so "PS." is also found in "epsilon".
    """
    marker = settings.postscript_marker
    pattern = POSTSCRIPTS.get(marker)
    matches = [pattern.search(text.lower()) for text in texts] if pattern else find_keywords(texts, (marker,))[0]
    missing = RowFinding(False, f"missing {marker!r}")
    return [FOLLOWED if is_found else missing for is_found in matches]


@register_instruction(
    "combination:two_responses",
    CheckSettings,
    Example("Yes.\n******\nNo.", True),
    Example("Yes.\n******\nYes.", False),
    Example("Yes.\n******\n******\nNo.", False),
)
def two_responses(text: str, settings: CheckSettings) -> RowFinding:
    """The output has two different responses, separated by six asterisks.

    A blank response at the start or the end is ignored; a blank one between two dividers makes the output fail.
    Whitespace around a response is ignored.
    """
    responses = [response.strip() for response in text.split(DIVIDER)]
    filled = [response for response in responses if response]
    if not all(responses[1:-1]):
        return RowFinding(False, "a response between two dividers is blank")
    if len(filled) != 2:
        return RowFinding(False, f"{len(filled)} response{'' if len(filled) == 1 else 's'}, exactly 2 required")
    return RowFinding(False, "both responses are the same") if filled[0] == filled[1] else FOLLOWED


@register_instruction(
    "combination:repeat_prompt",
    RepeatedPromptSettings,
    Example("\nWHY is it blue? Because of the air.", True, {"prompt_to_repeat": "Why is it blue?"}),
    Example("Sure! Why is it blue? Because of the air.", False, {"prompt_to_repeat": "Why is it blue?"}),
)
def repeat_prompt(text: str, settings: RepeatedPromptSettings) -> RowFinding:
    """The output starts with `prompt_to_repeat`, in any case, after any whitespace.

    Whitespace inside the prompt counts: a line end is not a space. Nothing has to follow.
    """
    start = text.lstrip()
    if start.lower().startswith(settings.prompt_to_repeat.lower()):
        return FOLLOWED
    return RowFinding(False, f"starts with {start[:EXCERPT_CHARACTERS]!r}")


@register_instruction(
    "startend:end_checker",
    EndPhraseSettings,
    Example('"So it goes. the END."\n', True, {"end_phrase": "The end."}),
    Example("The end. Bye!", False, {"end_phrase": "The end."}),
)
def end_checker(text: str, settings: EndPhraseSettings) -> RowFinding:
    """The output ends with `end_phrase`, in any case, before any final whitespace and double quotes."""
    end = text.strip().strip('"')
    if end.lower().endswith(settings.end_phrase.lower()):
        return FOLLOWED
    return RowFinding(False, f"ends with {end[-EXCERPT_CHARACTERS:]!r}")


@register_instruction(
    "startend:quotation",
    CheckSettings,
    Example('"So it goes."\n', True),
    Example("“So it goes.”", False),
)
def quotation(text: str, settings: CheckSettings) -> RowFinding:
    """The output starts and ends with a straight double quote, ignoring whitespace.

    A single quote mark for both is not enough.
    """
    whole = text.strip()
    if len(whole) > 1 and whole[0] == whole[-1] == '"':
        return FOLLOWED
    return RowFinding(False, f"starts with {whole[0]!r} and ends with {whole[-1]!r}")


@register_instruction(
    "punctuation:no_comma",
    CheckSettings,
    Example("Plain words; no more.", True),
    Example("Red, white and blue.", False),
)
def no_comma(text: str, settings: CheckSettings) -> RowFinding:
    """The output has no comma. Only "," counts: commas of other scripts, such as "、", do not."""
    position = text.find(",")
    if position < 0:
        return FOLLOWED
    before, after = (
        text[max(0, position - EXCERPT_CHARACTERS // 2) : position],
        text[position : position + EXCERPT_CHARACTERS // 2],
    )
    return RowFinding(False, f"found a comma: {before + after!r}")
