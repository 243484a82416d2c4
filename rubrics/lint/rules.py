"""Lint rules about words, duplicates, levels, examples, weights, thresholds, methods and version steps."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import chain, islice, pairwise
from math import ceil
from typing import Any

from gradebook.rubrics.files.versions import step_fault
from gradebook.rubrics.lint.findings import Remark, Rule, declare_rule, register_rule
from gradebook.rubrics.lint.texts import (
    MOST_READ,
    QUOTE,
    QUOTED,
    STOP_WORDS,
    VAGUE,
    content_words,
    described_levels,
    is_same_root,
    named_texts,
    roots_of,
    shorten,
    words_of,
)
from gradebook.rubrics.model.functions import STAND_INS, is_within
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import (
    FunctionMethod,
    JudgedExample,
    JudgeMethod,
    PreferenceMethod,
    SchemaMethod,
    SimilarityMethod,
)
from gradebook.rubrics.model.rubric import TOP, Criterion, Rubric, WeightTree, score_range
from gradebook.rubrics.text.plain_words import Place

FEWEST_CONCRETE = 4  # words besides vague words, plus three for each vague word
_VACUOUS = (
    "output outputs reply response answer text message level overall quality very quite mostly generally rather fairly "
    "somewhat more less most well manner way not no"
)
VACUOUS_WORDS = frozenset(_VACUOUS.split())
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
                quoted_words = ", ".join(shorten(word) for word in vague[:3])
                message = (
                    f"found {quoted_words} and nothing observable, expected something that a reader could see or count"
                )
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
    concrete_words = {
        word for word in words_of(VAGUE.sub(" ", text)) if word not in STOP_WORDS and word not in VACUOUS_WORDS
    }
    return vague if len(concrete_words) < max(FEWEST_CONCRETE, 3 * len(vague)) else []


LEAST_OVERLAP = 0.8  # Jaccard index: common words divided by all words of both texts
FEWEST_WORDS = 4
MOST_COMPARED = 100  # earlier criteria that a criterion is compared with

_Words = frozenset[str]


@register_rule("similar-descriptions", "warning", "Merge the two criteria, or state how their questions differ.")
def find_similar_descriptions(rubric: Rubric) -> Iterator[Remark]:
    """Two criteria share at least 80% of the words of their descriptions, so they are hardly independent."""
    texts = [content_words(criterion.description) for criterion in rubric.criteria]
    for index, earlier, overlap in _similar_pairs(texts):
        message = f"found {overlap:.0%} of the words of criteria[{earlier}] ({rubric.criteria[earlier].id}) here"
        yield Remark(("criteria", index, "description"), f"{message}, expected a question of its own")


def _similar_pairs(texts: list[tuple[str, ...]]) -> Iterator[tuple[int, int, float]]:
    """Each text with the first earlier text similar to it: (text, earlier text, overlap).

    Two sets with an overlap of at least t share one of the (1 - t) * n + 1 rarest words of each, so only those are
    looked up, the rarest first, and at most 100 texts with such a word are compared: time stays linear in the criteria.
    """
    sets = [frozenset(words) for words in texts]
    frequencies = Counter(word for words in sets for word in words)
    owners: dict[str, list[int]] = {}
    for index, words in enumerate(sets):
        if len(words) < FEWEST_WORDS:
            continue
        ranked = sorted(words, key=lambda word: (frequencies[word], word))
        rarest = ranked[: len(words) - ceil(LEAST_OVERLAP * len(words)) + 1]
        holders = chain.from_iterable(reversed(owners.get(word, ())) for word in rarest)
        candidates = sorted(set(islice(holders, MOST_COMPARED)))
        for earlier in candidates:
            overlap = _overlap(words, sets[earlier])
            if overlap >= LEAST_OVERLAP and texts[earlier] != texts[index]:
                yield index, earlier, overlap
                break
        for word in rarest:
            owners.setdefault(word, []).append(index)


def _overlap(one: _Words, other: _Words) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


MOST_CRITERIA = 10  # most criteria of one group; with more, weights become small and ratings careless
FEWEST_CRITERIA = 3  # fewest criteria; with fewer, one verdict decides the score
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
            name = shorten(criterion.name or criterion.id)
            yield Remark(("criteria", index, key), f"found {name}, the name of criteria[{first}] too, expected another")


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


@register_rule(
    "same-measure", "warning", "Remove one of the two criteria, or measure the second one by another method."
)
def find_same_measures(rubric: Rubric) -> Iterator[Remark]:
    """Two weighted criteria by claims or similarity have the same settings, so one number counts twice."""
    seen: dict[str, int] = {}
    for index, criterion in enumerate(rubric.criteria):
        if criterion.gate or criterion.method.has_own_text:
            continue
        first = seen.setdefault(criterion.method.model_dump_json(), index)
        if first != index:
            message = f"found the {criterion.method.type} of criteria[{first}] again, expected another measure"
            yield Remark(("criteria", index, "method"), message)


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


CROWD, THRESHOLDS, IDLE_THRESHOLDS = "too-many-criteria", "no-threshold", "idle-thresholds"
SAVE_RULES = (CROWD, "description-repeats-name")  # warnings that a draft may have, and an active version may not


def crowd_fault(rubric: Rubric) -> str | None:
    """Fault of a rubric with more than 10 weighted criteria over all its categories; None where points are counted."""
    weights = [criterion.own_weight for criterion in rubric.criteria if criterion.own_weight]
    if len(weights) <= MOST_CRITERIA or min(weights) < 0:
        return None
    return f"found {len(weights)} weighted criteria over all categories, expected at most {MOST_CRITERIA}"


@register_rule(CROWD, "warning", "Group the criteria into categories, or remove those without influence.")
def find_crowds(rubric: Rubric) -> Iterator[Remark]:
    """A group, a category or a rubric without categories, has more than 10 weighted criteria."""
    counts: dict[str, int] = {}
    for criterion in rubric.criteria:
        group = criterion.category or TOP if rubric.categories else TOP
        counts[group] = counts.get(group, 0) + (criterion.own_weight != 0)
    places = _category_places(rubric)
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


MOST_NAMED = 12
MOST_POINTS = 11  # points of a scale, as from 0 to 10; more points are a count or a share, which people type


@register_rule("levels-out-of-order", "warning", "List the levels from the worst to the best.")
def find_disorder(rubric: Rubric) -> Iterator[Remark]:
    """The levels are not listed from worst to best, the order in which judges and people see them."""
    for index, criterion in enumerate(rubric.criteria):
        scores = [level.score for level in criterion.levels]
        if any(before > after for before, after in pairwise(scores)):
            scores_text = ", ".join(f"{score:g}" for score in scores[:MOST_NAMED])
            yield Remark(("criteria", index, "levels"), f"found the scores {scores_text}, expected the lowest first")


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
    """A level, or a point of a scale of up to 11, chosen by a judge or people has no description."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.method.is_read and not (criterion.scale and len(criterion.ranked_levels) > MOST_POINTS):
            place: Place = ("criteria", index)
            bare = [
                (level_place, level)
                for level_place, level in described_levels(criterion, place)
                if not level.description.strip()
            ]
            yield from _scale_remarks(criterion, place, bare) if criterion.scale else _level_remarks(bare)


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


def _level_remarks(bare: list[tuple[Place, Level]]) -> Iterator[Remark]:
    for place, level in bare:
        yield Remark(place[:-1], f"found no description of {level.id}, expected one of an output at this level")


def _scale_remarks(criterion: Criterion, place: Place, bare: list[tuple[Place, Level]]) -> Iterator[Remark]:
    """One remark per scale, as a scale from 0 to 100 would otherwise give a hundred remarks."""
    if bare:
        points = ", ".join(level.id for _, level in bare[:MOST_NAMED])
        more = f" and {len(bare) - MOST_NAMED} more" if len(bare) > MOST_NAMED else ""
        message = f"found no description of {points}{more}, expected one for each point"
        yield Remark((*place, "scale"), message, f"Describe the points of {criterion.id} under scale.points.")


LONGEST_EXAMPLE = 4_000  # characters of an example


@register_rule("long-example", "note", "Shorten the example to the passages that decide its level.")
def find_long_examples(rubric: Rubric) -> Iterator[Remark]:
    """An example is long, and is paid for with every request."""
    for index, examples in _examples(rubric):
        for number, example in enumerate(examples):
            length = len(example.output) + len(example.prompt or "") + len(example.rationale or "")
            if length > LONGEST_EXAMPLE:
                message = f"found an example of {length} characters, expected at most {LONGEST_EXAMPLE}"
                yield Remark(("criteria", index, "method", "examples", number), message)


@register_rule("one-sided-examples", "note", "Add an example of another level, or remove them.")
def find_one_sided_examples(rubric: Rubric) -> Iterator[Remark]:
    """All examples have the same level, which biases a judge towards it."""
    for index, examples in _examples(rubric):
        levels = {example.level for example in examples}
        if len(levels) == 1:
            message = f"found examples of the level {levels.pop()} alone, expected two levels or more"
            yield Remark(("criteria", index, "method", "examples"), message)


def _examples(rubric: Rubric) -> Iterator[tuple[int, tuple[JudgedExample, ...]]]:
    for index, criterion in enumerate(rubric.criteria):
        if isinstance(criterion.method, JudgeMethod):
            yield index, criterion.method.examples


FEWEST_EQUAL = 3
# Relative for a weight_sum below 1. A third has no finite decimal form, so three weights of 0.333 (sum 0.999) count as
# 1. Three weights of 0.33 (sum 0.99) do not: 0.5 + 0.49, a wrong weight, has the same sum; one of the thirds should be
# 0.34.
SUM_TOLERANCE = 0.005
USUAL_SUMS = (1, 100)
USUAL_TOLERANCE = 0.01  # share of the sum
ROUNDING = 1e-9  # rounding error of a sum: ten weights of 0.1 add up to slightly less than 1


@register_rule("equal-weights", "warning", "Weight the criteria by importance, or give a rationale for equal weights.")
def find_equal_weights(rubric: Rubric) -> Iterator[Remark]:
    """Three or more criteria all have the same weight, and not all of them have a rationale for it."""
    weighted = [criterion for criterion in rubric.criteria if not criterion.gate]
    weights = [criterion.own_weight for criterion in weighted]
    category_weights = {category.weight for category in rubric.categories}
    is_alike = len(set(weights)) == 1 and len(category_weights) <= 1
    if len(weights) >= FEWEST_EQUAL and is_alike and not all(criterion.rationale for criterion in weighted):
        yield Remark(
            ("criteria",), f"found {len(weights)} weights of {weights[0]:g}, expected different ones or a rationale"
        )


@register_rule("weight-sum", "error", "Correct the weights, or weight_sum.")
def find_wrong_sums(rubric: Rubric) -> Iterator[Remark]:
    """The weights of a group do not add up to the rubric's weight_sum, to within 0.005 of it."""
    expected = rubric.weight_sum
    if expected is None:
        return
    places = _category_places(rubric)
    tolerance = SUM_TOLERANCE * min(1, expected) + ROUNDING * expected
    for group, total in WeightTree.of(rubric).positive_sums.items():
        if total > 0 and abs(total - expected) > tolerance:
            sum_of = "weights" if group == TOP else f"weights in {group}"
            message = f"found {sum_of} that add up to {total:.9g}, expected {expected:.9g}"
            yield Remark(places.get(group, ("weight_sum",)), message)


UNUSUAL_SUM = "unusual-weight-sum"


@register_rule(UNUSUAL_SUM, "note", "Correct the weights, or set weight_sum to the sum that is meant.")
def find_unusual_sums(rubric: Rubric) -> Iterator[Remark]:
    """Weights with decimals add up to neither 1 nor 100, to within 1%, and no weight_sum is given.

    Whole numbers state ratios, penalties state points, and weights that add up to their category's are shares of the
    whole: none of these is found.
    """
    weights = [criterion.weight for criterion in rubric.criteria if criterion.weight is not None]
    weights += [category.weight for category in rubric.categories]
    if rubric.weight_sum is not None or min(weights, default=0) < 0 or all(weight == int(weight) for weight in weights):
        return
    places = _category_places(rubric)
    category_sums = {category.id: (category.weight,) for category in rubric.categories if category.weight}
    for group, total in WeightTree.of(rubric).positive_sums.items():
        usual_sums = (*USUAL_SUMS, *category_sums.get(group, ()))
        if total > 0 and all(abs(total - usual) > usual * USUAL_TOLERANCE + ROUNDING for usual in usual_sums):
            sum_of = "weights" if group == TOP else f"weights in {group}"
            yield Remark(places.get(group, ("criteria",)), f"found {sum_of} that add up to {total:.9g}, expected 1")


def _category_places(rubric: Rubric) -> dict[str, Place]:
    return {category.id: ("categories", index) for index, category in enumerate(rubric.categories)}


@register_rule("trivial-threshold", "warning", "Raise the threshold to a score that an output can miss.")
def find_trivial_thresholds(rubric: Rubric) -> Iterator[Remark]:
    """Every output reaches the threshold: it is 0, or no more than the worst level's score."""
    for index, criterion in enumerate(rubric.criteria):
        worst = criterion.ranked_levels[0].score
        if criterion.threshold is not None and criterion.threshold <= worst:
            message = f"found {criterion.threshold:g}, expected more than {worst:g}, the score of the worst level"
            yield Remark(("criteria", index, "threshold"), message)
    scores = score_range(rubric)
    if rubric.pass_threshold is not None and scores and rubric.pass_threshold <= scores[0]:
        message = f"found {rubric.pass_threshold:g}, expected more than {scores[0]:g}, the lowest possible score"
        yield Remark(("pass_threshold",), message)


@register_rule("strict-threshold", "warning", "Lower the threshold to a score that a good output reaches.")
def find_strict_thresholds(rubric: Rubric) -> Iterator[Remark]:
    """Only the best possible output passes, although a criterion has three or more levels."""
    scores = score_range(rubric)
    has_degrees = any(len(criterion.ranked_levels) > 2 and not criterion.gate for criterion in rubric.criteria)
    if rubric.pass_threshold is not None and scores and has_degrees and rubric.pass_threshold >= scores[1]:
        message = f"found {rubric.pass_threshold:g}, expected less than {scores[1]:g}, the highest possible score"
        yield Remark(("pass_threshold",), message)


@register_rule(THRESHOLDS, "warning", "Set a threshold: the score from which the criterion is met.")
def find_missing_thresholds(rubric: Rubric) -> Iterator[Remark]:
    """A weighted criterion has no threshold, so it is undefined when it is met."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.own_weight > 0 and criterion.threshold is None:
            yield Remark(("criteria", index), "found no threshold, expected a score from which the criterion is met")


@register_rule(
    IDLE_THRESHOLDS, "note", "Set `require_thresholds: true`, or `false` if the overall score alone decides."
)
def find_idle_thresholds(rubric: Rubric) -> Iterator[Remark]:
    """Criteria have thresholds, and the rubric does not say whether their means have to reach them."""
    marked = [
        criterion for criterion in rubric.criteria if criterion.own_weight > 0 and criterion.threshold is not None
    ]
    if marked and "require_thresholds" not in rubric.model_fields_set:
        yield Remark(
            ("criteria",), f"found {len(marked)} with a threshold that decides nothing, expected one that does"
        )


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


_ANNOTATIONS = (
    "$schema $id $anchor $comment $defs $vocabulary definitions title description default examples deprecated readOnly "
    "writeOnly format contentMediaType contentEncoding contentSchema"
)
ANNOTATIONS = frozenset(_ANNOTATIONS.split())
_EMPTY: tuple[tuple[str, Any], ...] = (
    ("properties", {}),
    ("patternProperties", {}),
    ("required", []),
    ("additionalProperties", True),
    ("additionalProperties", {}),
    ("items", True),
    ("items", {}),
)


@register_rule("similarity-gate", "warning", "Give it a weight, and let claims, a check or a judge be the gate.")
def find_similarity_gates(rubric: Rubric) -> Iterator[Remark]:
    """A gate rests on similarity, which a reversed meaning passes and a right answer in other words fails."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.gate and isinstance(criterion.method, SimilarityMethod):
            message = "found a gate by similarity, which no threshold makes reliable, expected a weight"
            yield Remark(("criteria", index, "method"), message)


@register_rule("preference-gate", "warning", "Give it a weight, and let what an answer must have be the gate.")
def find_preference_gates(rubric: Rubric) -> Iterator[Remark]:
    """A gate rests on a preference, which says which of two answers is better, not whether either is good enough."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.gate and isinstance(criterion.method, PreferenceMethod):
            message = "found a gate by preference, which a bad answer passes beside a worse one, expected a weight"
            yield Remark(("criteria", index, "method"), message)


@register_rule("conditional-gate", "note", "Remove `applies`, if the gate is to guard every output.")
def find_conditional_gates(rubric: Rubric) -> Iterator[Remark]:
    """A gate has a condition: it guards no output that the condition leaves out."""
    for index, criterion in enumerate(rubric.criteria):
        if criterion.gate and criterion.applies is not None:
            message = f"found a gate for outputs where {criterion.applies} alone, expected one for every output"
            yield Remark(("criteria", index, "applies"), message)


@register_rule("no-weight-everywhere", "note", "Add a weighted criterion without `applies`, unless one always applies.")
def find_conditional_weights(rubric: Rubric) -> Iterator[Remark]:
    """Every criterion with a weight has a condition: an output that meets none of them has no score."""
    weighted = [criterion for criterion in rubric.criteria if criterion.own_weight > 0]
    if weighted and all(criterion.applies is not None for criterion in weighted):
        yield Remark(("criteria",), "found a condition on each weighted criterion, expected one that always applies")


@register_rule("unknown-function", "warning", "Name a check, a schema, a judge or a function of your own.")
def find_stand_ins(rubric: Rubric) -> Iterator[Remark]:
    """A placeholder stands for a rule that could not be imported."""
    for index, name in functions_of(rubric):
        if is_within(name.partition(":")[0], STAND_INS):
            message = f"found the function {name}, a placeholder from an import, expected an existing one"
            yield Remark(("criteria", index, "method"), message)


OWN_FUNCTION = "own-function"


@register_rule(OWN_FUNCTION, "note", "Name its package with --allow-functions.")
def find_own_functions(rubric: Rubric) -> Iterator[Remark]:
    """A function of your own gives the verdict: it runs only if its package is allowed."""
    for index, name in functions_of(rubric):
        if not is_within(name.partition(":")[0], STAND_INS):
            expected = "expected its package in --allow-functions"
            yield Remark(("criteria", index, "method"), f"found the function {name}, {expected}")


def functions_of(rubric: Rubric) -> Iterator[tuple[int, str]]:
    """Index and function, as `module.path:name`, of each criterion of the method function."""
    for index, criterion in enumerate(rubric.criteria):
        if isinstance(criterion.method, FunctionMethod):
            yield index, criterion.method.function


@register_rule("schema-accepts-everything", "warning", "State requirements in the schema, or use the check json_valid.")
def find_empty_schemas(rubric: Rubric) -> Iterator[Remark]:
    """A schema accepts every output that is JSON."""
    for index, criterion in enumerate(rubric.criteria):
        if isinstance(criterion.method, SchemaMethod) and _accepts_everything(criterion.method.json_schema):
            message = "found a schema that accepts any JSON, expected one that an output could fail"
            yield Remark(("criteria", index, "method", "schema"), message)


def _accepts_everything(schema: dict[str, Any]) -> bool:
    return all(keyword in ANNOTATIONS or (keyword, value) in _EMPTY for keyword, value in schema.items())


REVIEW_DAYS = 180
UNREVIEWED = declare_rule(
    Rule(
        "weights-not-reviewed",
        "note",
        "The weights were last reviewed more than 180 days ago, by the key `reviewed`.",
        "Look at the weights (`gradebook people outcomes show` proposes some), and set `reviewed` to the day.",
    )
)


def find_old_review(rubric: Rubric, today: date) -> Iterator[Remark]:
    """Compare the day of the last review with today; a day that no calendar has is found too."""
    try:
        age = None if rubric.reviewed is None else (today - date.fromisoformat(rubric.reviewed)).days
    except ValueError:
        yield Remark(("reviewed",), f"found {rubric.reviewed}, expected a day of the calendar")
        return
    if age is not None and age > REVIEW_DAYS:
        yield Remark(("reviewed",), f"found a review {age:,} days ago, expected at most {REVIEW_DAYS}")


VERSION_STEP = declare_rule(
    Rule(
        "version-step",
        "error",
        "The version increases by less than the changes since the previous version require, or not at all.",
        "Give the rubric the next version.",
    )
)


def find_wrong_step(previous: Rubric, rubric: Rubric) -> Iterator[Remark]:
    """Compare the version step with the changes; a rubric with another id is ignored."""
    fault = step_fault(previous, rubric) if rubric.id == previous.id else None
    if fault:
        yield Remark(("version",), fault.message, f"Set version to {fault.expected}.")
