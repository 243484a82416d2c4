"""Instructions about wording: postscript, two responses, repeated prompt, ending, quotation, no comma."""

import re
from typing import Annotated

from pydantic import StringConstraints

from gradebook.rubrics.check_kit.check import CheckSettings, Example
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS
from gradebook.rubrics.check_kit.rows import RowFinding
from gradebook.rubrics.checks.ifeval.instruction import (
    FOLLOWED,
    register_column_instruction,
    register_instruction,
)
from gradebook.rubrics.checks.ifeval.searching import StrippedKeyword, find_keywords

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
    known = POSTSCRIPTS.get(marker)
    finds = [known.search(text.lower()) for text in texts] if known else find_keywords(texts, (marker,))[0]
    missing = RowFinding(False, f"missing {marker!r}")
    return [FOLLOWED if is_found else missing for is_found in finds]


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
    place = text.find(",")
    if place < 0:
        return FOLLOWED
    before, after = text[max(0, place - EXCERPT_CHARACTERS // 2) : place], text[place : place + EXCERPT_CHARACTERS // 2]
    return RowFinding(False, f"found a comma: {before + after!r}")
