"""Version step that a change of a rubric requires: wording, content, or a different way of scoring."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gradebook.rubrics.files.digest import ABSENT, Difference, find_differences
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import VERSION_PATTERN, Criterion, Rubric, WeightTree, effective_weights

SMALL_MOVE = 0.05  # of a threshold: its meaning stays the same
SMALL_SHARE = 0.005  # of the whole score: the weight stays practically the same
ROUNDING = 1e-9
MOST_REASONS = 3
WIDEST_LEVELS = 80

Step = Literal["none", "patch", "minor", "major"]
Reason = tuple[Step, str]
Path = tuple[str, ...]

_SIZES: tuple[Step, ...] = ("none", "patch", "minor", "major")
# Steps for changed keys of the same method; other changes are a different way of scoring.
_METHOD_STEPS: dict[str, Step] = {
    "settings": "minor",
    "schema": "minor",
    "max_tokens": "minor",
    "can_abstain": "minor",
    "guidance": "patch",  # words for the judge, like descriptions
    "examples": "patch",
}


@dataclass(frozen=True, slots=True)
class VersionStep:
    """Smallest valid step, with its reasons. reasons: every difference with its step, the largest first."""

    step: Step
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class StepFault:
    """Version that does not fit its changes. expected: smallest version that does."""

    message: str
    expected: str


def required_step(old: Rubric, new: Rubric) -> VersionStep:
    """Smallest valid step from `old` to `new`, whatever their versions."""
    moved = _moved_shares(old, new)
    found = [difference for difference in find_differences(old, new) if difference.path != ("version",)]
    summaries = dict(_summaries(old, new))
    reasons = list(summaries.values())
    reasons += [
        (_step_of(entry, old, new, moved), entry.sentence) for entry in found if not _is_summarised(entry, summaries)
    ]
    reweighed = {entry.path[1] for entry in found if entry.path[:1] == ("criteria",) and entry.path[2:] == ("weight",)}
    reasons += [("minor", sentence) for criterion_id, sentence in moved.items() if criterion_id not in reweighed]
    reasons.sort(key=lambda reason: -_SIZES.index(reason[0]))
    return VersionStep(reasons[0][0] if reasons else "none", tuple(reasons))


def step_between(old_version: str, new_version: str) -> Literal["none", "patch", "minor", "major", "back"]:
    """First number of the version that increased; "back" if the new version is lower."""
    old, new = _numbers(old_version), _numbers(new_version)
    if new <= old:
        return "none" if new == old else "back"
    if new[0] > old[0]:
        return "major"
    return "minor" if new[1] > old[1] else "patch"


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
    required, taken = required_step(old, new), step_between(old.version, new.version)
    if taken != "back" and _SIZES.index(taken) >= _SIZES.index(required.step):
        return None
    expected = next_version(old.version, required.step)
    found = f"found {new.version} after {old.version}"
    if required.step == "none":
        return StepFault(f"{found}, expected {expected} or later", expected)
    sentences = [sentence for step, sentence in required.reasons if step == required.step]
    hidden_count = len(sentences) - MOST_REASONS
    why = "; ".join(sentences[:MOST_REASONS]) + (f"; and {hidden_count} more" if hidden_count > 0 else "")
    return StepFault(f"{found}, expected a {required.step} step, {expected} ({why})", expected)


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
            | ("categories", _, "parent")
        ):
            return "major"
        case ("criteria", _, "category"):
            return "major" if old.categories or new.categories else "minor"  # without a tree it is a label
        case ("pass_threshold",) | ("criteria", _, "threshold"):
            return _threshold_step(difference)
        case ("criteria", criterion_id, "weight"):
            return _weight_step(old.criterion(criterion_id), new.criterion(criterion_id), moved)
        case ("criteria", _, "method", key, *_):
            return _METHOD_STEPS.get(key, "major")
    is_whole_part = len(difference.path) == 2 and difference.path[0] in ("criteria", "categories")
    is_scoring = difference.path == ("overall",) or difference.path[0] in ("schemas", "taxonomy")
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
    """Change of the levels' ids or scores, in words; None if only their texts changed."""
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
    """Criteria whose share of the whole changed, in words, by id.

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
    """Weights of these criteria in a rubric with no others; the positive ones sum to 1."""
    criteria = tuple(criterion for criterion in rubric.criteria if criterion.id in criterion_ids)
    kept = rubric.model_copy(update={"criteria": criteria})
    while empty := _groups_without_weight(kept):
        left = {
            "criteria": tuple(criterion for criterion in kept.criteria if criterion.category not in empty),
            "categories": tuple(category for category in kept.categories if category.id not in empty),
        }
        kept = kept.model_copy(update=left)
    weights = effective_weights(kept)
    whole = sum(weight for weight in weights.values() if weight > 0)
    return {criterion_id: weight / whole for criterion_id, weight in weights.items()} if whole > 0 else {}


def _groups_without_weight(rubric: Rubric) -> set[str]:
    sums = WeightTree.of(rubric).positive_sums
    return {category.id for category in rubric.categories if sums[category.id] <= 0}
