"""Versions of a rubric: canonical text, digest, described differences, and the required version step.

The version step that a change requires depends on what changed: wording, content, or the way of scoring.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from pydantic import ValidationError

from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import VERSION_PATTERN, Criterion, Overall, Rubric, WeightTree, effective_weights
from gradebook.rubrics.text.plain_words import Place, describe, place_text

LARGEST_EXACT = 2**53  # each whole number up to this is a float, so 1 and 1.0 have one text
MOST_SHOWN = 60

ABSENT = object()


def canonical_body(rubric: Rubric) -> str:
    """Canonical JSON text of a rubric: sorted keys, no defaults, 1.0 written as 1.

    Formatting, key order and comments of the YAML have no effect. Defaults are omitted so that a later gradebook with
    more keys gives an old rubric the same text. Raises `RubricError` for values that JSON cannot represent: nan, or
    metadata nested too deeply.
    """
    try:
        body = _json(rubric.model_dump(by_alias=True, exclude_defaults=True))
        body.encode()  # half of a surrogate pair is not valid text
    except (ValueError, RecursionError) as error:
        problem = (
            "too deep a nesting" if isinstance(error, RecursionError) else f"a value that JSON can't hold ({error})"
        )
        raise RubricError((Fault(rubric.id, None, f"found {problem}, expected values that JSON can hold"),)) from None
    return body


def rubric_digest(rubric: Rubric) -> str:
    """Digest of the canonical body, 32 hex digits. Raises `RubricError` as `canonical_body`."""
    return digest_of(canonical_body(rubric))


def question_digest(question: Criterion | Overall) -> str:
    """Digest of a question to people: name, description and levels from the worst to the best; 32 hex digits.

    A person's rating belongs to this text. Method, weight, threshold and the levels' scores are excluded.
    """
    name = question.label if isinstance(question, Overall) else question.name
    levels = [[level.id, level.label, level.description, list(level.indicators)] for level in question.ranked_levels]
    return digest_of(_json([name, question.description, levels]))


def rubric_from_body(body: str) -> Rubric:
    """Rubric from a canonical body. Raises `RubricError` if this gradebook does not know its content."""
    try:
        return Rubric.model_validate(json.loads(body, parse_constant=_refuse_constant))
    except ValidationError as error:
        messages = [_body_fault(fault) for fault in error.errors(include_url=False)]
    except (ValueError, RecursionError) as error:
        problem = "endless nesting" if isinstance(error, RecursionError) else f"no JSON ({error})"
        messages = [f"found {problem}, expected a rubric's canonical body"]
    raise RubricError(tuple(Fault("rubric body", None, message) for message in messages))


def describe_difference(old: Rubric, new: Rubric) -> list[str]:
    """Describe each change in one line: "criteria[tone].weight: 0.4 -> 0.5". Empty only for equal digests."""
    return [difference.sentence for difference in find_differences(old, new)]


@dataclass(frozen=True, slots=True)
class Difference:
    """One change.

    path: keys and ids that lead to it, ("criteria", "tone", "weight"). old, new: `ABSENT` for a missing side.
    """

    path: tuple[str, ...]
    old: Any
    new: Any
    sentence: str


def find_differences(old: Rubric, new: Rubric) -> list[Difference]:
    """Find all changes, with their paths. Lists of entries with ids are compared by id, then by order."""
    return list(_differences((), "", old.model_dump(by_alias=True), new.model_dump(by_alias=True)))


def _body_fault(fault: Any) -> str:
    place: Place = fault["loc"]
    if fault["type"] == "extra_forbidden":
        around = f"{place_text(place[:-1])}: " if len(place) > 1 else ""
        return f"{around}found the unknown key {place[-1]!r}, expected those of this gradebook (a later one has more)"
    return describe(fault, place, ())[1]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"found {name}, expected a finite number")


def _json(value: Any) -> str:
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_EXACT:
        return int(value)
    return value


def _differences(path: tuple[str, ...], place: str, old: Any, new: Any) -> Iterator[Difference]:
    if ABSENT not in (old, new) and _json(old) == _json(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            key_place = f"{place}.{key}".removeprefix(".")
            yield from _differences((*path, key), key_place, old.get(key, ABSENT), new.get(key, ABSENT))
    elif _has_ids(old) and _has_ids(new):
        yield from _list_differences(path, place, old, new)
    else:
        excerpts = _excerpts(_without_gaps(path, old), _without_gaps(path, new))
        yield Difference(path, old, new, f"{place}: {' -> '.join(excerpts)}")


def _has_ids(value: Any) -> bool:
    """Whether a value is a tuple of entries with distinct ids: categories, criteria or levels (settings hold lists)."""
    if not isinstance(value, tuple) or not all(isinstance(entry, dict) and "id" in entry for entry in value):
        return False
    return len({entry["id"] for entry in value}) == len(value)


def _list_differences(path: tuple[str, ...], place: str, old: Any, new: Any) -> Iterator[Difference]:
    olds, news = ({entry["id"]: entry for entry in entries} for entries in (old, new))
    for entry_id in dict.fromkeys([*olds, *news]):
        entry_place = f"{place}[{entry_id}]"
        if entry_id not in news:
            yield Difference((*path, entry_id), olds[entry_id], ABSENT, f"{entry_place}: removed")
        elif entry_id not in olds:
            yield Difference((*path, entry_id), ABSENT, news[entry_id], f"{entry_place}: added")
        else:
            yield from _differences((*path, entry_id), entry_place, olds[entry_id], news[entry_id])
    before, after = [key for key in olds if key in news], [key for key in news if key in olds]
    if before != after:
        yield Difference(path, before, after, f"{place}: order {', '.join(before)} -> {', '.join(after)}")


def _without_gaps(path: tuple[str, ...], value: Any) -> Any:
    """Drop unset keys of a scale, overall row or notes; anything else is returned unchanged."""
    match path:
        case ("overall",) | ("notes",) | ("overall", "scale") | ("criteria", _, "scale"):
            return _filled(value)
    return value


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(entry) for key, entry in value.items() if entry not in (None, "", (), {})}
    return [_filled(entry) for entry in value] if isinstance(value, tuple) else value


def _excerpts(old: Any, new: Any) -> tuple[str, str]:
    """Excerpts of both values; long ones start shortly before the first difference."""
    texts = [_shown(old), _shown(new)]
    shared = next((index for index, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, shared - MOST_SHOWN // 3) if max(map(len, texts)) > MOST_SHOWN else 0
    old_excerpt, new_excerpt = (_excerpt(text, start) for text in texts)
    return old_excerpt, new_excerpt


def _shown(value: Any) -> str:
    if value is ABSENT or value is None:
        return "absent" if value is ABSENT else "none"
    return value if isinstance(value, str) else _json(value)


def _excerpt(text: str, start: int) -> str:
    excerpt = text[start : start + MOST_SHOWN]
    return f"{'...' if start else ''}{excerpt}{'...' if start + MOST_SHOWN < len(text) else ''}"


SMALL_MOVE = 0.05  # change of a threshold that keeps its meaning
SMALL_SHARE = 0.005  # change of a weight's share that has practically no effect
ROUNDING = 1e-9
MOST_REASONS = 3
WIDEST_LEVELS = 80

Step = Literal["none", "patch", "minor", "major"]
Reason = tuple[Step, str]
Path = tuple[str, ...]

_SIZES: tuple[Step, ...] = ("none", "patch", "minor", "major")
# Version steps for changed keys of the same method; any other key changes the way of scoring.
_METHOD_STEPS: dict[str, Step] = {
    "settings": "minor",
    "schema": "minor",
    "max_tokens": "minor",
    "can_abstain": "minor",
    "lists_requirements": "minor",
    "field": "minor",
    "guidance": "patch",  # text for the judge, like a description
    "examples": "patch",
}


@dataclass(frozen=True, slots=True)
class VersionStep:
    """Smallest valid step, with its reasons. reasons: every difference with its step, the largest first."""

    step: Step
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class StepFault:
    """Version that does not fit its changes. expected: smallest version that fits."""

    message: str
    expected: str


def required_step(old: Rubric, new: Rubric) -> VersionStep:
    """Smallest valid step from `old` to `new`, whatever their versions."""
    moved = _moved_shares(old, new)
    differences = [difference for difference in find_differences(old, new) if difference.path != ("version",)]
    summaries = dict(_summaries(old, new))
    reasons = list(summaries.values())
    reasons += [
        (_step_of(entry, old, new, moved), entry.sentence)
        for entry in differences
        if not _is_summarised(entry, summaries)
    ]
    reweighed = {
        entry.path[1] for entry in differences if entry.path[:1] == ("criteria",) and entry.path[2:] == ("weight",)
    }
    reasons += [("minor", sentence) for criterion_id, sentence in moved.items() if criterion_id not in reweighed]
    reasons.sort(key=lambda reason: -_SIZES.index(reason[0]))
    return VersionStep(reasons[0][0] if reasons else "none", tuple(reasons))


def step_between(old_version: str, new_version: str) -> Literal["none", "patch", "minor", "major", "back"]:
    """First number of the version that increased; "back" if the new version is lower."""
    old_numbers, new_numbers = _numbers(old_version), _numbers(new_version)
    if new_numbers <= old_numbers:
        return "none" if new_numbers == old_numbers else "back"
    if new_numbers[0] > old_numbers[0]:
        return "major"
    return "minor" if new_numbers[1] > old_numbers[1] else "patch"


def next_version(version: str, step: Step) -> str:
    """Version after this one by that step: its number increases by one, later ones become 0."""
    major, minor, patch = _numbers(version)
    versions = {
        "none": (major, minor, patch),
        "patch": (major, minor, patch + 1),
        "minor": (major, minor + 1, 0),
        "major": (major + 1, 0, 0),
    }
    return ".".join(str(number) for number in versions[step])


def step_fault(old: Rubric, new: Rubric) -> StepFault | None:
    """Fault of `new`'s version as the successor of `old`; None if it is valid."""
    required, actual_step = required_step(old, new), step_between(old.version, new.version)
    if actual_step != "back" and _SIZES.index(actual_step) >= _SIZES.index(required.step):
        return None
    expected = next_version(old.version, required.step)
    message = f"found {new.version} after {old.version}"
    if required.step == "none":
        return StepFault(f"{message}, expected {expected} or later", expected)
    sentences = [sentence for step, sentence in required.reasons if step == required.step]
    hidden_count = len(sentences) - MOST_REASONS
    why = "; ".join(sentences[:MOST_REASONS]) + (f"; and {hidden_count} more" if hidden_count > 0 else "")
    return StepFault(f"{message}, expected a {required.step} step, {expected} ({why})", expected)


def _numbers(version: str) -> tuple[int, int, int]:
    if not re.fullmatch(VERSION_PATTERN, version):
        message = f"version: found {textwrap.shorten(version, 60)!r}, expected three numbers such as 1.0.0"
        raise RubricError((Fault("rubric", None, message),))
    major, minor, patch = map(int, version.split("."))
    return major, minor, patch


def _step_of(difference: Difference, old: Rubric, new: Rubric, moved: dict[str, str]) -> Step:
    match difference.path:
        case (
            ("id" | "missing" | "require_thresholds",)
            | ("criteria", _, "gate" | "required")
            | ("criteria", _, "applies", *_)
            | ("categories", _, "parent")
        ):
            return "major"
        case ("criteria", _, "category"):
            return "major" if old.categories or new.categories else "minor"  # without a tree a category is a label
        case ("pass_threshold",) | ("criteria", _, "threshold"):
            return _threshold_step(difference)
        case ("criteria", criterion_id, "weight"):
            return _weight_step(old.criterion(criterion_id), new.criterion(criterion_id), moved)
        case ("criteria", _, "method", key, *_):
            return _METHOD_STEPS.get(key, "major")
    is_whole_part = len(difference.path) == 2 and difference.path[0] in ("criteria", "categories")
    is_scoring = difference.path == ("overall",) or difference.path[0] in ("schemas", "taxonomy")
    is_scoring |= difference.path[-1] in ("decide", "alpha", "max_failure_rate")  # changes the decision, not the scores
    return "minor" if is_whole_part or is_scoring else "patch"


def _threshold_step(difference: Difference) -> Step:
    if difference.old is None or difference.new is None:
        return "minor"
    return "patch" if abs(difference.new - difference.old) <= SMALL_MOVE + ROUNDING else "minor"


def _weight_step(old: Criterion, new: Criterion, moved: dict[str, str]) -> Step:
    if ((old.weight or 0) < 0) != ((new.weight or 0) < 0):
        return "major"
    return "minor" if old.id in moved else "patch"


def _summaries(old: Rubric, new: Rubric) -> Iterator[tuple[Path, Reason]]:
    """Summaries of related differences, by place."""
    if bool(old.categories) != bool(new.categories):
        trees = [", ".join(category.id for category in rubric.categories) or "none" for rubric in (old, new)]
        yield ("categories",), ("major", f"categories: {' -> '.join(trees)}: the scores of groups make up the whole")
    before = {criterion.id: criterion for criterion in old.criteria}
    for after in new.criteria:
        if after.id in before:
            yield from _scoring_summaries(before[after.id], after)
    if old.overall and new.overall:
        sentence = _levels_sentence("overall.levels", old.overall.ranked_levels, new.overall.ranked_levels)
        if sentence:
            yield ("overall", "levels"), ("minor", sentence)


def _scoring_summaries(old: Criterion, new: Criterion) -> Iterator[tuple[Path, Reason]]:
    place: Path = ("criteria", old.id)
    if old.method.type != new.method.type:
        types = f"{old.method.type} -> {new.method.type}"
        yield (*place, "method"), ("major", f"criteria[{old.id}].method: {types}")
    sentence = _levels_sentence(f"criteria[{old.id}].levels", old.ranked_levels, new.ranked_levels)
    if sentence:
        yield (*place, "levels"), ("major", sentence)


def _levels_sentence(place: str, old: tuple[Level, ...], new: tuple[Level, ...]) -> str | None:
    """Sentence on a change of the levels' ids or scores; None if only their texts changed."""
    is_same = len(old) == len(new) and all(
        before.id == after.id and abs(before.score - after.score) <= ROUNDING
        for before, after in zip(old, new, strict=True)
    )
    texts = [", ".join(f"{level.id} {level.score:.9g}" for level in levels) for levels in (old, new)]
    return None if is_same else f"{place}: {' -> '.join(textwrap.shorten(text, WIDEST_LEVELS) for text in texts)}"


def _is_summarised(difference: Difference, summaries: dict[Path, Reason]) -> bool:
    """Whether a summary covers the difference; the wording of levels is always reported separately."""
    match difference.path:
        case ("categories", *_):
            return ("categories",) in summaries
        case ("criteria", criterion_id, "method", *_):
            return ("criteria", criterion_id, "method") in summaries
        case ("criteria", criterion_id, "levels" | "scale", *inner):
            return ("criteria", criterion_id, "levels") in summaries and not _is_wording(inner, difference)
        case ("overall", "levels" | "scale", *inner):
            return ("overall", "levels") in summaries and not _is_wording(inner, difference)
    return False


def _is_wording(inner: list[str], difference: Difference) -> bool:
    """Whether only wording changed. inner: keys below `levels` or `scale`."""
    match inner:
        case [_, "label" | "description" | "indicators"]:
            return True
        case ["points" | "labels", _]:
            return ABSENT not in (difference.old, difference.new)
    return False


def _moved_shares(old: Rubric, new: Rubric) -> dict[str, str]:
    """Sentence on the changed share of each criterion, by id.

    Only criteria weighted in both rubrics are compared: adding or removing one keeps the ratios of the others.
    """
    weighed = [{criterion.id for criterion in rubric.criteria if not criterion.gate} for rubric in (old, new)]
    before, after = (_shares(rubric, weighed[0] & weighed[1]) for rubric in (old, new))
    return {
        criterion_id: f"criteria[{criterion_id}]: share of the whole {before[criterion_id]:.1%} -> {share:.1%}"
        for criterion_id, share in after.items()
        if criterion_id in before and abs(share - before[criterion_id]) > SMALL_SHARE + ROUNDING
    }


def _shares(rubric: Rubric, criterion_ids: set[str]) -> dict[str, float]:
    """Weights of these criteria, without others; positive weights are scaled to sum 1."""
    criteria = tuple(criterion for criterion in rubric.criteria if criterion.id in criterion_ids)
    reduced = rubric.model_copy(update={"criteria": criteria})
    while empty := _groups_without_weight(reduced):
        remaining = {
            "criteria": tuple(criterion for criterion in reduced.criteria if criterion.category not in empty),
            "categories": tuple(category for category in reduced.categories if category.id not in empty),
        }
        reduced = reduced.model_copy(update=remaining)
    weights = effective_weights(reduced)
    total = sum(weight for weight in weights.values() if weight > 0)
    return {criterion_id: weight / total for criterion_id, weight in weights.items()} if total > 0 else {}


def _groups_without_weight(rubric: Rubric) -> set[str]:
    sums = WeightTree.of(rubric).positive_sums
    return {category.id for category in rubric.categories if sums[category.id] <= 0}
