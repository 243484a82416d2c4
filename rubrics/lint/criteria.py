"""Rules about criteria as a set: duplicates, their number, and descriptions that add nothing."""

import re
from collections.abc import Iterator

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.lint.tokens import VAGUE, content_words, is_same_root, roots_of, shorten, words_of
from gradebook.rubrics.model.rubric import TOP, Criterion, Rubric
from gradebook.rubrics.text.plain_words import Place

MOST_CRITERIA = 10  # in one group; with more, the weights become small and the ratings careless
FEWEST_CRITERIA = 3  # with fewer, one verdict decides the score
_STATUS_WORD = re.compile(r"(?:^|_)(?:final|latest|draft|copy|old|tmp|temp|v\d+)$")
_GENERIC = "output reply response answer text message model result assistant criterion quality"
GENERIC_WORDS = frozenset(_GENERIC.split())


@register_rule("no-description", "warning", "Describe what the rubric evaluates, and for which decision.")
def find_no_description(rubric: Rubric) -> Iterator[Remark]:
    """The rubric has no description."""
    if not rubric.description.strip():
        yield Remark(("description",), "found none, expected a sentence on what is evaluated")


@register_rule("status-word-id", "warning", "Name the id after what is evaluated; the version counts its changes.")
def find_status_words(rubric: Rubric) -> Iterator[Remark]:
    """The rubric's id ends with a word about its state, such as final, latest, draft or v2."""
    if _STATUS_WORD.search(rubric.id):
        yield Remark(("id",), f"found {rubric.id}, expected a name without its state")


@register_rule("duplicate-name", "error", "Rename one of the two criteria, or merge them.")
def find_duplicate_names(rubric: Rubric) -> Iterator[Remark]:
    """Two criteria have the same name, ignoring case, order, stop words and endings; an id replaces a missing name."""
    seen: dict[frozenset[str], int] = {}
    for index, criterion in enumerate(rubric.criteria):
        first = seen.setdefault(_roots_of_name(criterion), index)
        if first != index:
            key = "id" if criterion.name is None else "name"
            found = shorten(criterion.name or criterion.id)
            yield Remark(
                ("criteria", index, key), f"found {found}, the name of criteria[{first}] too, expected another"
            )


@register_rule("duplicate-description", "error", "Remove one of the two criteria, or describe how they differ.")
def find_duplicate_descriptions(rubric: Rubric) -> Iterator[Remark]:
    """Two criteria have the same description, so one judgment counts twice."""
    seen: dict[tuple[str, ...], int] = {}
    for index, criterion in enumerate(rubric.criteria):
        first = seen.setdefault(words_of(criterion.description) or (criterion.description,), index)
        if first != index:
            message = (
                f"found {shorten(criterion.description)} of criteria[{first}] again, expected a question of its own"
            )
            yield Remark(("criteria", index, "description"), message)


@register_rule("description-repeats-name", "warning", "State in the description what a reader should look for.")
def find_repeated_names(rubric: Rubric) -> Iterator[Remark]:
    """A criterion's description only repeats its name."""
    for index, criterion in enumerate(rubric.criteria):
        names = content_words(f"{criterion.name or ''} {criterion.id.replace('_', ' ')}")
        described = [
            word for word in content_words(criterion.description) if word not in GENERIC_WORDS and not VAGUE.match(word)
        ]
        if all(any(is_same_root(word, name) for name in names) for word in described):
            message = f"found {shorten(criterion.description)}, expected more than the name"
            yield Remark(("criteria", index, "description"), message)


@register_rule("too-many-criteria", "warning", "Group the criteria into categories, or remove those without influence.")
def find_crowds(rubric: Rubric) -> Iterator[Remark]:
    """A group, a category or a rubric without categories, has more than 10 weighted criteria."""
    counts: dict[str, int] = {}
    for criterion in rubric.criteria:
        group = criterion.category or TOP if rubric.categories else TOP
        counts[group] = counts.get(group, 0) + (criterion.own_weight != 0)
    places: dict[str, Place] = {category.id: ("categories", index) for index, category in enumerate(rubric.categories)}
    for group, count in counts.items():
        if count > MOST_CRITERIA:
            message = f"found {count} weighted criteria in one group, expected at most {MOST_CRITERIA}"
            yield Remark(places.get(group, ("criteria",)), message)


@register_rule("few-criteria", "note", "Split what one criterion asks, or accept that one verdict decides.")
def find_few_criteria(rubric: Rubric) -> Iterator[Remark]:
    """The rubric has fewer than 3 criteria, gates included."""
    if 0 < len(rubric.criteria) < FEWEST_CRITERIA:
        yield Remark(("criteria",), f"found {len(rubric.criteria)}, expected {FEWEST_CRITERIA} or more")


def _roots_of_name(criterion: Criterion) -> frozenset[str]:
    name = criterion.id.replace("_", " ") if criterion.name is None else criterion.name
    return roots_of(name) or frozenset(words_of(name) or (name.strip(),))
