"""Export of criteria that came from a `trajectory_eval` scheme, as that scheme."""

from collections.abc import Sequence
from typing import Any

from gradebook.rubrics.importers.metadata import Kept, filled, kept_of, mapping_of, plain_number
from gradebook.rubrics.importers.potato.trajectory import DEFAULT_LABELS, DEFAULT_START, DIGITS, ERROR_TYPES, TAXONOMY
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Criterion

GROUP_KEYS = ("category", "name")
ENTRY_KEYS = ("name", "value", "label")


def is_of_trajectory(criterion: Criterion) -> bool:
    """Whether it came from a `trajectory_eval`."""
    return kept_of(criterion.metadata, "potato").get("part") in ("start", "steps", "errors")


def trajectory_blocks(criteria: Sequence[Criterion], kept: Row, lost: Kept) -> Row:
    """Keys of the scheme, without its name and description. kept: data stored by the import."""
    taxonomy: dict[str, list[str]] = {}
    severities: dict[str, float | int] = {}
    start, labels = plain_number(DEFAULT_START), list(DEFAULT_LABELS)
    for criterion in criteria:
        part = kept_of(criterion.metadata, "potato")
        match part:
            case {"part": "start"}:
                start = plain_number(criterion.weight or DEFAULT_START)
            case {"part": "steps"}:
                best_first = sorted(criterion.ranked_levels, key=lambda level: -level.score)
                labels = [level.label or level.id for level in best_first]
            case {"category": str(group), "severity": str(severity)}:
                kinds = taxonomy.setdefault(group, [])
                if isinstance(part.get("type"), str) and part["type"] not in kinds:
                    kinds.append(part["type"])
                points = _points_of_an_error(criterion, part.get("points"))
                if severities.setdefault(severity, points) != points:
                    lost.note(f"{criterion.id}.weight")
            case _:
                lost.note(criterion.id)
    return _blocks(taxonomy, severities, labels, start, kept)


def _points_of_an_error(criterion: Criterion, points: Any) -> float | int:
    """Points of one error: as stored by the import, if the weight still agrees."""
    most, weight = len(criterion.ranked_levels) - 1, min(0.0, criterion.weight or 0.0)
    is_number = isinstance(points, int | float) and not isinstance(points, bool)
    if is_number and round(points * most, DIGITS) == weight:
        return plain_number(points)
    return plain_number(round(weight / most, DIGITS))


def _blocks(
    taxonomy: dict[str, list[str]],
    severities: dict[str, float | int],
    labels: list[str],
    start: float | int,
    kept: Row,
) -> Row:
    weights = [{"name": name, "weight": weight} for name, weight in severities.items()]
    of_file = mapping_of(kept.get("scheme"))
    groups: list[Row]
    if kept.get("spelling") == ERROR_TYPES.groups:
        keys = ERROR_TYPES
        groups = [{"name": group, "subtypes": kinds} for group, kinds in taxonomy.items()]
        fresh: list[Any] = [groups, weights, labels, start]
    else:
        keys = TAXONOMY
        named = {group: [{"name": kind} for kind in kinds] for group, kinds in taxonomy.items()}
        groups = [{"category": group, "types": kinds} for group, kinds in named.items()]
        fresh = [groups, weights, {"labels": labels}, {"initial": start}]
    names = (keys.groups, keys.severities, keys.labels, keys.start)
    blocks = {
        name: _overlay(of_file.get(name), block, GROUP_KEYS if name == keys.groups else ENTRY_KEYS)
        for name, block in zip(names, fresh, strict=True)
    }
    return {**blocks, **filled(of_file, names)}


def _overlay(kept: Any, fresh: Any, name_keys: tuple[str, ...]) -> Any:
    """Merge the rubric's content into the stored content of the file; entries of lists are matched by name."""
    if isinstance(kept, dict) and isinstance(fresh, dict):
        return {**kept, **{key: _overlay(kept.get(key), value, ENTRY_KEYS) for key, value in fresh.items()}}
    if isinstance(kept, list) and isinstance(fresh, list):
        named = {_name_of(entry, name_keys): entry for entry in kept if isinstance(entry, dict)}
        return [_overlay_entry(named.get(_name_of(entry, name_keys)), entry, name_keys) for entry in fresh]
    return fresh


def _overlay_entry(kept: Any, fresh: Any, name_keys: tuple[str, ...]) -> Any:
    if kept is None:
        return fresh
    rest = {key: value for key, value in mapping_of(fresh).items() if key not in name_keys}
    return _overlay(kept, rest, ENTRY_KEYS)


def _name_of(entry: Any, name_keys: tuple[str, ...]) -> str:
    names = (entry.get(key) for key in name_keys) if isinstance(entry, dict) else (entry,)
    return next((name for name in names if isinstance(name, str)), "")
