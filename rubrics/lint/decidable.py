"""Rule about questions for a judge that a check would answer for free and deterministically."""

import re
from collections.abc import Iterator

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.lint.tokens import MOST_READ, QUOTE
from gradebook.rubrics.model.rubric import Rubric

_NUMBER = r"(?:\d[\d,]{0,12}|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty|a hundred)"
_BOUND = (
    r"(?:at (?:most|least)|(?:no |not )?(?:more|fewer|less|longer|shorter) than|under|over|between|exactly|within|"
    r"up to|a (?:maximum|minimum) of|below|above)"
)
_COUNT = (
    rf"(?:{_BOUND}\s+{_NUMBER}(?:\s*(?:to|and|-|–)\s*{_NUMBER})?|{_NUMBER}\s*(?:to|-|–)\s*{_NUMBER}|\d[\d,]{{0,12}}|"
    rf"(?:has|have|of|in|is|are)\s+{_NUMBER})"
)
_UNIT = r"(words?|characters?|sentences?|paragraphs?|bullets?(?: points?)?)"
_END = r"(?=\s*(?:$|[.?!,;)]|long\b|or (?:fewer|less|more)\b|in (?:length|total|all)\b))"
_LENGTH = re.compile(rf"\b{_COUNT}\s+{_UNIT}{_END}")

_KIND = r"(?:words?|phrases?|texts?|strings?|sentences?|terms?|keywords?|line|heading)"
_NOUN = rf"(?:(?:the )?(?:exact |literal )?{_KIND}[ :]+)"
_BEGINNING = rf"\b(?:start|begin|open)s?\s+with\s+{_NOUN}?{QUOTE}"
_ENDING = rf"\b(?:end|close)s?\s+with\s+{_NOUN}?{QUOTE}"
_ABSENCE = (
    rf"\b(?:never|not|avoids?|no|without)\s+(?:\w+ ){{0,2}}?"
    rf"(?:{_NOUN}|(?:contain(?:ing)?|includ(?:e|ing))\s+{_NOUN}?){QUOTE}"
)
_PRESENCE = rf"\b(?:contain|include)s?\s+{_NOUN}?{QUOTE}|\b(?:mention|say|use|have|has|hold)s?\s+{_NOUN}{QUOTE}"
_JSON = (
    r"\b(?:valid|well[- ]formed|pars(?:e)?able|parses? as)\s+(?:\w+ ){0,2}?json\b|"
    r"\bjson\b[^.?!]{0,30}\b(?:valid|parse[sd]?|well[- ]formed)\b"
)
_PATTERN = r"\b(?:regex|regular expression)\b|\bformat\s+[ymdhx#9][ymdhx#9/:.-]{3,}"
_SAMENESS = r"\b(?:identical to|equals?|(?:exactly|the same as)) the reference\b|\bcharacter by character\b"

_CHECKS_OF_WORDING = tuple(
    (re.compile(pattern), check)
    for pattern, check in (
        (_BEGINNING, "starts_with"),
        (_ENDING, "ends_with"),
        (_ABSENCE, "not_contains"),
        (_PRESENCE, "contains"),
        (_JSON, "json_valid"),
        (_PATTERN, "matches_regex"),
        (_SAMENESS, "matches_reference"),
    )
)
_CHECKS_BY_UNIT = {
    "word": "length_words",
    "character": "length_characters",
    "sentence": "count_sentences",
    "paragraph": "count_paragraphs",
    "bullet": "count_bullets",
}
NAMED_CHECKS = (*_CHECKS_BY_UNIT.values(), *(check for _, check in _CHECKS_OF_WORDING))


@register_rule("check-could-decide", "warning", "Use a check: it costs nothing and is deterministic.")
def find_decidable(rubric: Rubric) -> Iterator[Remark]:
    """A judge is asked what a check can decide: a length, valid JSON, a quoted phrase, a beginning, a pattern."""
    for index, criterion in enumerate(rubric.criteria):
        check = find_deciding_check(criterion.description) if criterion.method.type == "judge" else None
        if check:
            message = f"found a question for a judge that the check {check} answers, expected the check"
            yield Remark(("criteria", index, "description"), message, f"Use the method check with check: {check}.")


def find_deciding_check(description: str) -> str | None:
    """Check that would answer a question; None if it needs a reader."""
    text = description[:MOST_READ].casefold()
    length = _LENGTH.search(text)
    if length:
        return next(check for unit, check in _CHECKS_BY_UNIT.items() if length[1].startswith(unit))
    return next((check for pattern, check in _CHECKS_OF_WORDING if pattern.search(text)), None)
