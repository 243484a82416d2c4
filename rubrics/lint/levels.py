"""Rules about the levels of a criterion."""

from collections.abc import Iterator
from itertools import pairwise

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.lint.places import READ_METHODS, described_levels
from gradebook.rubrics.lint.tokens import shorten, words_of
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.text.plain_words import Place

MOST_NAMED = 12


@register_rule("levels-out-of-order", "warning", "List the levels from the worst to the best.")
def find_disorder(rubric: Rubric) -> Iterator[Remark]:
    """The levels are not listed from worst to best, the order in which judges and people see them."""
    for index, criterion in enumerate(rubric.criteria):
        scores = [level.score for level in criterion.levels]
        if any(before > after for before, after in pairwise(scores)):
            listed = ", ".join(f"{score:g}" for score in scores[:MOST_NAMED])
            yield Remark(("criteria", index, "levels"), f"found the scores {listed}, expected the lowest first")


@register_rule("equal-level-scores", "error", "Give each level a score of its own, or merge the two levels.")
def find_equal_scores(rubric: Rubric) -> Iterator[Remark]:
    """Two levels of a criterion have the same score, so the choice between them has no effect."""
    for index, criterion in enumerate(rubric.criteria):
        seen: dict[float, str] = {}
        for number, level in enumerate(criterion.levels):
            first = seen.setdefault(level.score, level.id)
            if first != level.id:
                message = f"found {level.score:g}, the score of {first} too, expected another"
                yield Remark(("criteria", index, "levels", number, "score"), message)


@register_rule("level-without-description", "warning", "Describe an output of this level.")
def find_bare_levels(rubric: Rubric) -> Iterator[Remark]:
    """A level or point chosen by a judge or people has no description."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.method.type in READ_METHODS:
            place: Place = ("criteria", index)
            bare = [
                (where, level) for where, level in described_levels(criterion, place) if not level.description.strip()
            ]
            yield from _bare_points(criterion, place, bare) if criterion.scale else _each_bare(bare)


@register_rule("same-level-descriptions", "error", "Describe how the two levels differ.")
def find_same_descriptions(rubric: Rubric) -> Iterator[Remark]:
    """Two levels of a criterion have the same description."""
    for index, criterion in enumerate(rubric.criteria):
        seen: dict[tuple[str, ...], str] = {}
        for place, level in described_levels(criterion, ("criteria", index)):
            text = level.description.strip()
            first = seen.setdefault(words_of(text) or (text,), level.id) if text else level.id
            if first != level.id:
                yield Remark(place, f"found {shorten(text)} of {first} again, expected a description of its own")


@register_rule("no-bottom-level", "warning", "Add a level with the score 0, or give the worst one that score.")
def find_missing_bottoms(rubric: Rubric) -> Iterator[Remark]:
    """No level of a criterion scores 0, so the worst output still gets part of the score."""
    for index, criterion in enumerate(rubric.criteria):
        worst = criterion.ranked_levels[0]
        if worst.score > 0:
            yield Remark(("criteria", index, "levels"), f"found {worst.score:g} as the lowest score, expected 0")


@register_rule("no-top-level", "warning", "Add a level with the score 1, or give the best one that score.")
def find_missing_tops(rubric: Rubric) -> Iterator[Remark]:
    """No level of a criterion scores 1, so no output can get its full weight."""
    for index, criterion in enumerate(rubric.criteria):
        best = criterion.ranked_levels[-1]
        if best.score < 1:
            yield Remark(("criteria", index, "levels"), f"found {best.score:g} as the highest score, expected 1")


def _each_bare(bare: list[tuple[Place, Level]]) -> Iterator[Remark]:
    for place, level in bare:
        yield Remark(place[:-1], f"found no description of {level.id}, expected one of an output at this level")


def _bare_points(criterion: Criterion, place: Place, bare: list[tuple[Place, Level]]) -> Iterator[Remark]:
    """One remark per scale: on a scale from 0 to 100, one per point would hide the others."""
    if bare:
        points = ", ".join(level.id for _, level in bare[:MOST_NAMED])
        more = f" and {len(bare) - MOST_NAMED} more" if len(bare) > MOST_NAMED else ""
        message = f"found no description of {points}{more}, expected one for each point"
        yield Remark((*place, "scale"), message, f"Describe the points of {criterion.id} under scale.points.")
