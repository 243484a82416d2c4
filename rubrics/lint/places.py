"""Places of the texts of a rubric."""

from collections.abc import Iterator

from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Criterion, Overall, Rubric
from gradebook.rubrics.text.plain_words import Place

READ_METHODS = ("judge", "ratings")  # methods whose criteria are read by a judge or a person


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
    for where, level in described_levels(criterion, place):
        is_point = "scale" in where
        yield where, level.description
        yield ((*place, "scale", "labels", level.id) if is_point else (*where[:-1], "label")), level.label or ""
        for number, indicator in enumerate(level.indicators):
            yield (*where[:-1], "indicators", number), indicator
