"""Rules about the words of a rubric."""

import re
from collections.abc import Iterator

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.lint.places import described_levels, named_texts
from gradebook.rubrics.lint.tokens import MOST_READ, QUOTED, STOP_WORDS, VAGUE, shorten, words_of
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Rubric

FEWEST_CONCRETE = 4  # words besides the vague ones; plus three for each of those
_GENERIC = (
    "output outputs reply response answer text message level overall quality very quite mostly generally rather fairly "
    "somewhat more less most well manner way not no"
)
GENERIC_WORDS = frozenset(_GENERIC.split())
_OBSERVABLE = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|half|once|twice|each|every|none|never|at least|at most|"
    r"more than|fewer than|name[sd]?|cite[sd]?|quote[sd]?|list(?:s|ed)?|state[sd]?|links?|repeat(?:s|ed)?|"
    r"contradicts?|omits?|refuse[sd]?|blames?|thanks?|invents?|skips?|stops?|crash(?:es)?|compiles?)\b"
)
_TEMPLATE = re.compile(r"\{\{[^{}]{0,200}\}\}|\{%[^{}]{0,200}%\}")


@register_rule("vague-words", "warning", "State what a reader would see, count or quote in an output of this level.")
def find_vague_words(rubric: Rubric) -> Iterator[Remark]:
    """A level is described by words such as "good" or "appropriate", without anything observable.

    Observable are: indicators, a number, a quoted text, a verb such as "names" or "contradicts", or else enough other
    words: at least four, and three for each vague one.
    """
    for index, criterion in enumerate(rubric.criteria):
        for place, level in described_levels(criterion, ("criteria", index)):
            vague = _vague_words(level)
            if vague:
                found = ", ".join(shorten(word) for word in vague[:3])
                message = f"found {found} and nothing observable, expected something that a reader could see or count"
                yield Remark(place, message)


@register_rule("unsafe-template", "error", "Write out the text: gradebook does not fill in templates.")
def find_templates(rubric: Rubric) -> Iterator[Remark]:
    """A text contains template syntax, which a judge would see unchanged."""
    for place, text in named_texts(rubric):
        template = _TEMPLATE.search(text)
        if template:
            yield Remark(place, f"found {shorten(template[0])}, expected plain text")


def _vague_words(level: Level) -> list[str]:
    """Vague words of a level's description; empty if it has something observable."""
    text = level.description[:MOST_READ].casefold()
    vague: list[str] = VAGUE.findall(text)
    if not vague or level.indicators or QUOTED.search(text) or _OBSERVABLE.search(text):
        return []
    others = {word for word in words_of(VAGUE.sub(" ", text)) if word not in STOP_WORDS and word not in GENERIC_WORDS}
    return vague if len(others) < max(FEWEST_CONCRETE, 3 * len(vague)) else []
