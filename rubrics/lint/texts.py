"""Texts of a rubric: their places, and descriptions as comparable words.

Stop words and stemming are those of English.
"""

import re
from collections.abc import Iterator

from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Criterion, Overall, Rubric
from gradebook.rubrics.text.plain_words import Place

MOST_READ = 2_000  # characters of a text that the wording rules read
STEM_LETTERS = 5  # "relevant" and "relevance" start with the same letters

WORD = re.compile(r"\w+(?:[.,'’-]\w+)*")
QUOTE = (
    r"(?:\"[^\"]{1,200}\"|“[^”]{1,200}”|«[^»]{1,200}»|"
    r"(?<!\w)['\u2018][^'\u2018\u2019]{1,200}['\u2019](?!\w))"
)
QUOTED = re.compile(QUOTE)
# Few endings (accura-cy, relevan-t, fact-ual): "content" and "context", "form" and "formality" must stay distinct.
_ENDING = re.compile(r"(?<=\w{4})(?:ual(?:ly)?|ness|ly|(?<=[ae]n)(?:c[ey]|t)(?:ly)?|(?<=a)(?:cy|te(?:ly)?))$")
_GRAMMAR = (
    "a an the is are was were be been being do does did has have had of to in on at by for from with as it its this "
    "that these those there and or but if then than so such which who whom what when where how why can could should "
    "would will may might must any each every all some his her their them they he she you your we our"
)
STOP_WORDS = frozenset(_GRAMMAR.split())
VAGUE = re.compile(
    r"\b(?:good|great|excellent|fine|nice|decent|ok|okay|bad|poor|average|perfect|solid|strong|weak|(?:in)?adequate|"
    r"(?:in)?appropriate|(?:un)?reasonabl[ey]|(?:un)?acceptabl[ey]|(?:un)?satisfactory|(?:in)?sufficient|(?:im)?proper|"
    r"(?:un)?suitabl[ey]|feels?|seems?|(?:high|low|top)[ -]quality)(?:ly)?\b"
)


def words_of(text: str) -> tuple[str, ...]:
    """Words of a text in lower case, in order."""
    return tuple(WORD.findall(text.casefold()))


def content_words(text: str) -> tuple[str, ...]:
    """Words without stop words and without the endings 's and s; "not" and "no" are included."""
    return tuple(_stem(word) for word in words_of(text[:MOST_READ]) if word not in STOP_WORDS)


def roots_of(text: str) -> frozenset[str]:
    """Roots of a text's content words: "Factual accuracy" has those of "accurate facts"."""
    return frozenset(_ENDING.sub("", word) for word in content_words(text))


def is_same_root(word: str, other: str) -> bool:
    """Whether two words start with the same letters: "accuracy" and "accurate"."""
    return word == other or (
        len(min(word, other, key=len)) >= STEM_LETTERS and word[:STEM_LETTERS] == other[:STEM_LETTERS]
    )


def without_quotes(text: str) -> str:
    """Start of a text in lower case, with a blank in place of each quoted part."""
    return QUOTED.sub(" ", text[:MOST_READ]).casefold()


def shorten(text: str, limit: int = 60) -> str:
    """Quote a text, cut to a readable length."""
    flat = " ".join(text[: 4 * limit].split())
    return repr(flat if len(flat) <= limit else f"{flat[: limit - 3]}...")


def _stem(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("’s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def described_levels(criterion: Criterion | Overall, place: Place) -> Iterator[tuple[Place, Level]]:
    """Levels as listed in the file, or a scale's points, each with the place of its description."""
    for index, level in enumerate(criterion.levels):
        yield (*place, "levels", index, "description"), level
    for level in criterion.scale.levels if criterion.scale else ():
        yield (*place, "scale", "points", level.id), level


def named_texts(rubric: Rubric) -> Iterator[tuple[Place, str]]:
    """Every text of a rubric for a judge or for people, without settings, schemas and metadata."""
    yield from _texts_at((), name=rubric.name, description=rubric.description)
    for index, category in enumerate(rubric.categories):
        texts = {"name": category.name, "description": category.description, "rationale": category.rationale}
        yield from _texts_at(("categories", index), **texts)
    for index, criterion in enumerate(rubric.criteria):
        place: Place = ("criteria", index)
        texts = {"name": criterion.name, "description": criterion.description, "rationale": criterion.rationale}
        yield from _texts_at(place, **texts)
        yield from _texts_of_levels(criterion, place)
    if rubric.overall:
        yield from _texts_at(("overall",), label=rubric.overall.label, description=rubric.overall.description)
        yield from _texts_of_levels(rubric.overall, ("overall",))
    if rubric.notes:
        yield from _texts_at(("notes",), label=rubric.notes.label, placeholder=rubric.notes.placeholder)


def _texts_at(place: Place, **texts: str | None) -> Iterator[tuple[Place, str]]:
    for key, text in texts.items():
        if text:
            yield (*place, key), text


def _texts_of_levels(criterion: Criterion | Overall, place: Place) -> Iterator[tuple[Place, str]]:
    for level_place, level in described_levels(criterion, place):
        is_point = "scale" in level_place
        yield level_place, level.description
        yield ((*place, "scale", "labels", level.id) if is_point else (*level_place[:-1], "label")), level.label or ""
        for number, indicator in enumerate(level.indicators):
            yield (*level_place[:-1], "indicators", number), indicator
