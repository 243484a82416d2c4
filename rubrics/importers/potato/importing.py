"""Import of Potato's configurations: a rubric from the schemes that contain one."""

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from gradebook.rubrics.importers.foreign_file import Reading, open_yaml
from gradebook.rubrics.importers.ids import DistinctIds, identifier
from gradebook.rubrics.importers.interfaces import Imported
from gradebook.rubrics.importers.metadata import FIRST_VERSION, Kept, filled, kept_as, mapping_of
from gradebook.rubrics.importers.potato.rubric_eval import (
    RubricScheme,
    note_rubric_faults,
    overall_criterion,
    read_criteria,
    read_free_rows,
)
from gradebook.rubrics.importers.potato.trajectory import (
    ERROR_TYPES,
    TrajectoryScheme,
    note_trajectory_faults,
    read_trajectory,
    spelling_of,
    taxonomy_of,
)
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.text.plain_words import shown

LONGEST_CATEGORY = 64
ANY_CATEGORY = re.compile(f".{{1,{LONGEST_CATEGORY}}}", re.DOTALL)
TITLE = "annotation_task_name"  # name of the file's content
MODELS: dict[str, type[RubricScheme] | type[TrajectoryScheme]] = {
    "rubric_eval": RubricScheme,
    "trajectory_eval": TrajectoryScheme,
}


@dataclass(frozen=True, slots=True)
class _Found:
    """Scheme that contains a rubric. raw: as in the file."""

    scheme: RubricScheme | TrajectoryScheme
    raw: Row


@dataclass(frozen=True, slots=True)
class _Part:
    """Result of a scheme. rows: the rubric's `overall` and `notes`; kept: content without a place in a rubric."""

    name: str
    description: dict[str, str]
    criteria: list[Row]
    rows: Row
    kept: Row


def read_potato(text: str, path: str) -> Imported:
    """Import the rubric of a configuration's schemes. Raises `RubricError` with every fault and its line."""
    reading = open_yaml(text, path)
    values = reading.value
    schemes = _schemes(values.get("annotation_schemes"), reading)
    reading.stop_at_faults()
    kept, ids = Kept(), DistinctIds()
    are_many = len(schemes) > 1
    first = next((found for found in schemes if isinstance(found.scheme, RubricScheme)), None)
    parts = [_part(found, found is first, ids, kept) for found in schemes]
    title = values.get(TITLE) if are_many and isinstance(values.get(TITLE), str) else None
    around = _kept_around(values, (TITLE,) if title else (), kept)
    rubric = _many_schemes(parts, title or PurePath(path).stem, kept) if are_many else _one_scheme(parts[0])
    trajectories = [found.scheme for found in schemes if isinstance(found.scheme, TrajectoryScheme)]
    rubric |= {"taxonomy": taxonomy_of(trajectories[0])} if len(trajectories) == 1 else {}
    rubric |= kept_as("potato", {**({} if are_many else parts[0].kept), **around})
    return reading.finish(rubric, kept)


def _schemes(entries: Any, reading: Reading) -> list[_Found]:
    """Schemes that contain a rubric."""
    place = ("annotation_schemes",)
    if not isinstance(entries, list):
        reading.stop(place, f"found {shown(entries)}, expected a list of schemes")
    schemes: list[_Found] = []
    for index, raw in enumerate(entries):
        kind = raw.get("annotation_type") if isinstance(raw, dict) else raw
        if not isinstance(raw, dict) or not isinstance(kind, str):
            reading.note((*place, index, "annotation_type"), f"found {shown(kind)}, expected a scheme's type")
        elif kind in MODELS:
            schemes += _scheme(raw, reading.within((*place, index), raw))
    names = [
        entry.get("name") if entry.get("annotation_type") in [*MODELS] else None for entry in map(mapping_of, entries)
    ]
    reading.note_repeats(names, place, "name")
    if not schemes and not reading.faults:
        types = ", ".join(raw["annotation_type"] for raw in entries) or "none"
        reading.note(place, f"found {types}, expected one of {', '.join(MODELS)}")
    return schemes


def _scheme(raw: Row, reading: Reading) -> list[_Found]:
    scheme = reading.fit(MODELS[raw["annotation_type"]], raw)
    if scheme is None:
        return []
    if isinstance(scheme, TrajectoryScheme):
        note_trajectory_faults(scheme, raw, reading)
    else:
        note_rubric_faults(scheme, reading)
    return [_Found(scheme, raw)]


def _part(found: _Found, is_first: bool, ids: DistinctIds, kept: Kept) -> _Part:
    """Part of a scheme. is_first: the rubric's overall row and notes are those of the first `rubric_eval`."""
    scheme = found.scheme
    rows: Row = {}
    if isinstance(scheme, TrajectoryScheme):
        criteria, left = read_trajectory(scheme, found.raw, ids, kept)
        spelling = ERROR_TYPES.groups if spelling_of(found.raw) == ERROR_TYPES else None
    else:
        criteria, left = read_criteria(scheme, ids, kept)
        spelling = "scale_points" if scheme.has_points else None
        rows, left_of_rows = read_free_rows(scheme, kept)
        if not is_first:
            criteria += [overall_criterion(scheme, rows["overall"], ids)] if "overall" in rows else []
            left_of_rows |= kept.note_all("", {"notes": found.raw["notes"]}) if "notes" in rows else {}
            rows = {}
        left |= left_of_rows
    own = filled({"spelling": spelling, "scheme": left})
    return _Part(scheme.name, filled({"description": scheme.description}), criteria, rows, own)


def _kept_around(values: Row, placed: tuple[str, ...], kept: Kept) -> Row:
    """Content of the file outside its rubrics: keys without a place, and schemes of other types."""
    config = kept.note_all("", filled(values, ("annotation_schemes", *placed)))
    others = [raw for raw in values["annotation_schemes"] if raw["annotation_type"] not in MODELS]
    kept.note(*(f"annotation_schemes of the type {raw['annotation_type']}" for raw in others))
    return filled({"config": config, "other_schemes": others})


def _one_scheme(part: _Part) -> Row:
    base = {"id": identifier(part.name, "rubric"), "version": FIRST_VERSION, "name": part.name}
    return {**base, **part.description, "criteria": part.criteria, **part.rows}


def _many_schemes(parts: list[_Part], title: str, kept: Kept) -> Row:
    categories: list[Row] = []
    criteria: list[Row] = []
    short_first = sorted((part.name for part in parts), key=lambda name: len(name) > LONGEST_CATEGORY)
    ids = DistinctIds("scheme", ANY_CATEGORY)
    category_ids = {name: ids.take(name) for name in short_first}  # the names are distinct
    for part in parts:
        category_id = category_ids[part.name]
        left = part.kept if category_id == part.name else {**part.kept, **kept.note_all("", {"name": part.name})}
        categories.append({"id": category_id, **part.description, **kept_as("potato", left)})
        criteria += [{**criterion, "category": category_id} for criterion in part.criteria]
    base = {"id": identifier(title, "rubric"), "version": FIRST_VERSION, "name": title}
    (rows,) = [part.rows for part in parts if part.rows] or [{}]
    return {**base, "categories": categories, "criteria": criteria, **rows}
