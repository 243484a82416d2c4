"""Import of dataknobs rubrics."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradebook.rubrics.importers.dataknobs.notes import (
    OURS,
    THEIRS,
    kept_names,
    lay_over_rubric,
    notes_of_criterion,
    notes_of_rubric,
    omitted_defaults,
)
from gradebook.rubrics.importers.dataknobs.terms import (
    ForeignRubric,
    express_criterion,
    express_rubric,
    understand_criterion,
    understand_head,
)
from gradebook.rubrics.importers.foreign_file import Reading, open_json
from gradebook.rubrics.importers.ids import DistinctIds
from gradebook.rubrics.importers.interfaces import Imported
from gradebook.rubrics.importers.metadata import Kept, kept_as, mapping_of
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.schemas.files import read_schema
from gradebook.rubrics.text.plain_words import shown

CONFIG = f"{THEIRS}_config"  # the key of `metadata` for the other content of a config file
MOST_NAMED = 20


def read_dataknobs(text: str, path: str) -> Imported:
    """Import the rubrics of a dataknobs file: a rubric, a list of them, or a config with `rubrics`."""
    reading = open_json(text, path)
    foreign_rubrics, config = _rubrics_in(reading)
    first, *others = [_import(foreign, config, reading) for foreign in foreign_rubrics]
    if not others:
        return first
    found = [*first.rubrics, *(rubric for each in others for rubric in each.rubrics)]
    ids = [rubric["id"] for rubric in found]
    if len(set(ids)) < len(ids):
        reading.stop((), f"found the rubrics {', '.join(ids[:MOST_NAMED])}, expected each id once")
    kept = tuple(
        f"{rubric_id}: {words}" for rubric_id, each in zip(ids, (first, *others), strict=True) for words in each.kept
    )
    return replace(first, others=tuple(found[1:]), kept=kept)


def _import(foreign: Row, config: Row, reading: Reading) -> Imported:
    foreign, riding = _take_off(_with_schemas(foreign, reading), reading)
    rubric = understand(foreign, reading)
    kept = Kept()
    kept.note(*kept_names(rubric))
    if riding:
        rubric = lay_over_rubric(rubric, riding, foreign, kept)
    if config:
        rubric["metadata"] = {**rubric.get("metadata", {}), CONFIG: kept.note_all("config.", config)}
    return reading.finish(rubric, kept)


def _rubrics_in(reading: Reading) -> tuple[list[Row], Row]:
    """Mappings of the rubrics, at least one, and the other content of a config file."""
    value = reading.value
    is_config = isinstance(value, dict) and "rubrics" in value and "criteria" not in value
    if isinstance(value, dict) and not is_config:
        return [value], {}
    rubrics, place = (value["rubrics"], ("rubrics",)) if is_config else (value, ())
    if not isinstance(rubrics, list):
        reading.stop(place, f"found {shown(rubrics)}, expected a rubric, or a list of rubrics")
    if not rubrics:
        reading.stop(place, "found no rubric, expected at least one")
    for number, rubric in enumerate(rubrics):
        if not isinstance(rubric, dict):
            reading.stop((*place, number), f"found {shown(rubric)}, expected a rubric")
    return rubrics, {key: entry for key, entry in value.items() if key != "rubrics"} if is_config else {}


def _with_schemas(foreign: Row, reading: Reading) -> Row:
    """The foreign rubric with each schema that it names (`schema_ref`) read from a file below its folder.

    A name without such a file, an address for example, stays as it is: nothing is fetched.
    """
    criteria = foreign.get("criteria")
    if not isinstance(criteria, list):
        return foreign
    return {**foreign, "criteria": [_with_schema(each, number, reading) for number, each in enumerate(criteria)]}


def _with_schema(criterion: Any, number: int, reading: Reading) -> Any:
    method = mapping_of(mapping_of(criterion).get("scoring_method"))
    name = method.get("schema_ref")
    if not isinstance(name, str) or method.get("schema") is not None:
        return criterion
    folder = Path(reading.path).parent
    if not _is_file(folder, name):
        return criterion
    try:
        schema = read_schema(name, folder)
    except ModelFault as fault:
        reading.stop(("criteria", number, "scoring_method", "schema_ref"), str(fault))
    return {**criterion, "scoring_method": {**method, "schema": schema}}


def _is_file(folder: Path, name: str) -> bool:
    # For an impossible name (too long, or with a NUL) os.path answers False; Path raises.
    return os.path.isfile(os.path.join(folder, name))  # noqa: PTH113, PTH118


def _take_off(foreign: Row, reading: Reading) -> tuple[Row, Row]:
    """The foreign rubric without `metadata.gradebook`, and the content of that key."""
    metadata = foreign.get("metadata")
    if not isinstance(metadata, dict) or OURS not in metadata:
        return foreign, {}
    riding = metadata[OURS]
    criteria = riding.get("criteria", {}) if isinstance(riding, dict) else None
    if not isinstance(criteria, dict) or not all(isinstance(entry, dict) for entry in criteria.values()):
        reading.stop(("metadata", OURS), "found content that no export wrote, expected a mapping")
    return {**foreign, "metadata": {key: entry for key, entry in metadata.items() if key != OURS}}, riding


def understand(foreign: Row, reading: Reading) -> Row:
    """Convert to the keys of a rubric file, with all other content under `metadata.dataknobs`. Raises `RubricError`."""
    _note_repeats(foreign, reading)
    shape = replace(reading, value=foreign).fit_whole(ForeignRubric)
    omitted = omitted_defaults(foreign)
    ids = DistinctIds()
    criteria: list[Row] = []
    for theirs, found in zip(foreign["criteria"], shape.criteria, strict=True):
        plain = understand_criterion(found, ids.take(found.id))
        notes = notes_of_criterion(theirs, express_criterion(plain, omitted), plain)
        criteria.append({**plain, **kept_as(THEIRS, notes)})
    rubric = {**understand_head(shape), "criteria": criteria}
    notes = notes_of_rubric(foreign, express_rubric(rubric), omitted)
    return rubric | ({"metadata": {**rubric.get("metadata", {}), THEIRS: notes}} if notes else {})


def _note_repeats(foreign: Row, reading: Reading) -> None:
    reading.note_repeats(_ids_in(foreign.get("criteria")), ("criteria",))
    criteria = foreign.get("criteria")
    for number, criterion in enumerate(criteria if isinstance(criteria, list) else ()):
        reading.note_repeats(_ids_in(mapping_of(criterion).get("levels")), ("criteria", number, "levels"))


def _ids_in(entries: Any) -> list[Any]:
    return [mapping_of(entry).get("id") for entry in entries] if isinstance(entries, list) else []
