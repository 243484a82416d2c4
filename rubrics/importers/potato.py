"""Potato's annotation configurations: their schemes `rubric_eval` and `trajectory_eval`, which people fill in.

Several such schemes in a file become one rubric with one category each, of equal weight, so that a category's score is
that of the scheme. The file's other keys, and schemes of other types, are stored.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from gradebook.rubrics.importers.foreign_file import Reading, open_yaml, plain_yaml
from gradebook.rubrics.importers.ids import DistinctIds, identifier
from gradebook.rubrics.importers.metadata import (
    FIRST_VERSION,
    FieldCounts,
    as_metadata,
    drop_empty,
    imported_metadata,
    mapping_or_empty,
    note_lost,
    note_method,
    plain_number,
)
from gradebook.rubrics.importers.potato_schemes import (
    ERROR_TYPES,
    OVERALL_PART,
    OVERALL_QUESTION,
    LikertScheme,
    RadioScheme,
    RubricScheme,
    SliderScheme,
    TrajectoryScheme,
    as_rubric_scheme,
    is_of_trajectory,
    note_rubric_faults,
    note_trajectory_faults,
    overall_criterion,
    points_of,
    read_criteria,
    read_free_rows,
    read_trajectory,
    spelling_of,
    taxonomy_of,
    trajectory_blocks,
)
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.text.plain_words import quote_value

LONGEST_CATEGORY = 64
ANY_CATEGORY = re.compile(f".{{1,{LONGEST_CATEGORY}}}", re.DOTALL)
ITEMS = "item_properties"  # columns of the items that people annotate
TITLE = "annotation_task_name"  # name of the file's content
MODELS: dict[str, type[RubricScheme] | type[TrajectoryScheme]] = {
    "rubric_eval": RubricScheme,
    "trajectory_eval": TrajectoryScheme,
}
QUESTIONS: dict[str, type[LikertScheme | SliderScheme | RadioScheme]] = {
    "likert": LikertScheme,
    "slider": SliderScheme,
    "radio": RadioScheme,
}
TYPES = (*MODELS, *QUESTIONS)
QUESTION_PART = "questions"  # category of the schemes of one criterion in a file with other schemes


@dataclass(frozen=True, slots=True)
class _ReadScheme:
    """Scheme that contains a rubric. raw: content in the file; is_question: whether it is one criterion on a scale."""

    scheme: RubricScheme | TrajectoryScheme
    raw: Row
    is_question: bool = False


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
    stored_fields, ids = FieldCounts(), DistinctIds()
    questions = [entry.scheme for entry in schemes if entry.is_question and isinstance(entry.scheme, RubricScheme)]
    other_schemes = [entry for entry in schemes if not entry.is_question]
    are_many = len(other_schemes) + bool(questions) > 1
    title = values.get(TITLE) if (are_many or not other_schemes) and isinstance(values.get(TITLE), str) else None
    first = next((entry for entry in other_schemes if isinstance(entry.scheme, RubricScheme)), None)
    parts = [_read_part(entry, entry is first, ids, stored_fields) for entry in other_schemes]
    if questions:
        criteria = [row for scheme in questions for row in read_criteria(scheme, ids, stored_fields)[0]]
        name = QUESTION_PART if other_schemes else title or PurePath(path).stem
        parts.append(_Part(name, {}, criteria, {}, {}))
    file_notes = _file_notes(values, (TITLE,) if title else (), stored_fields)
    rubric = _many_schemes(parts, title or PurePath(path).stem, stored_fields) if are_many else _one_scheme(parts[0])
    trajectories = [entry.scheme for entry in schemes if isinstance(entry.scheme, TrajectoryScheme)]
    rubric |= {"taxonomy": taxonomy_of(trajectories[0])} if len(trajectories) == 1 else {}
    rubric |= as_metadata("potato", {**({} if are_many else parts[0].kept), **file_notes})
    return reading.finish(rubric, stored_fields)


def _schemes(entries: Any, reading: Reading) -> list[_ReadScheme]:
    """Read the schemes of the known types; other types are left out."""
    schemes_place = ("annotation_schemes",)
    if not isinstance(entries, list):
        reading.stop(schemes_place, f"found {quote_value(entries)}, expected a list of schemes")
    schemes: list[_ReadScheme] = []
    for index, raw in enumerate(entries):
        kind = raw.get("annotation_type") if isinstance(raw, dict) else raw
        if not isinstance(raw, dict) or not isinstance(kind, str):
            reading.note(
                (*schemes_place, index, "annotation_type"), f"found {quote_value(kind)}, expected a scheme's type"
            )
        elif kind in MODELS:
            schemes += _scheme(raw, reading.within((*schemes_place, index), raw))
        elif _is_question(raw):
            schemes += _question(raw, reading.within((*schemes_place, index), raw))
    names = [
        entry.get("name") if entry.get("annotation_type") in tuple(MODELS) or _is_question(entry) else None
        for entry in map(mapping_or_empty, entries)
    ]
    reading.note_repeats(names, schemes_place, "name")
    if not schemes and not reading.faults:
        types = ", ".join(raw["annotation_type"] for raw in entries) or "none"
        expected = f"expected one of {', '.join(TYPES)}, of radio with whole numbers in sequence as labels"
        reading.note(schemes_place, f"found {types}, {expected}")
    return schemes


def _is_question(raw: Row) -> bool:
    """Whether a scheme is one criterion on a scale, also a `radio` whose labels are consecutive whole numbers."""
    kind = raw.get("annotation_type")
    return isinstance(kind, str) and kind in QUESTIONS and (kind != "radio" or bool(points_of(raw.get("labels"))))


def _scheme(raw: Row, reading: Reading) -> list[_ReadScheme]:
    scheme = reading.fit(MODELS[raw["annotation_type"]], raw)
    if scheme is None:
        return []
    if isinstance(scheme, TrajectoryScheme):
        note_trajectory_faults(scheme, raw, reading)
    else:
        note_rubric_faults(scheme, reading)
    return [_ReadScheme(scheme, raw)]


def _question(raw: Row, reading: Reading) -> list[_ReadScheme]:
    settings = {name: value for name, value in raw.items() if name != "annotation_type"}
    question = reading.fit(QUESTIONS[raw["annotation_type"]], settings)
    if question is None:
        return []
    scheme = as_rubric_scheme(question)
    note_rubric_faults(scheme, reading)
    return [_ReadScheme(scheme, raw, is_question=True)]


def _read_part(entry: _ReadScheme, is_first: bool, ids: DistinctIds, stored_fields: FieldCounts) -> _Part:
    """Part of a scheme. is_first: whether its overall row and notes become the rubric's."""
    scheme = entry.scheme
    rows: Row = {}
    if isinstance(scheme, TrajectoryScheme):
        criteria, extra = read_trajectory(scheme, entry.raw, ids, stored_fields)
        spelling = ERROR_TYPES.groups if spelling_of(entry.raw) == ERROR_TYPES else None
    else:
        criteria, extra = read_criteria(scheme, ids, stored_fields)
        spelling = "scale_points" if scheme.has_points else None
        rows, left_of_rows = read_free_rows(scheme, stored_fields)
        if not is_first:
            criteria += [overall_criterion(scheme, rows["overall"], ids)] if "overall" in rows else []
            left_of_rows |= stored_fields.note_all("", {"notes": entry.raw["notes"]}) if "notes" in rows else {}
            rows = {}
        extra |= left_of_rows
    content = drop_empty({"spelling": spelling, "scheme": extra})
    return _Part(scheme.name, drop_empty({"description": scheme.description}), criteria, rows, content)


def _item_columns(values: Row) -> tuple[str, ...]:
    """Columns of the items that a configuration names, in the form of `--map`; without gradebook's own names."""
    properties = mapping_or_empty(values.get(ITEMS))
    columns = {"case_id": properties.get("id_key"), "output": properties.get("text_key")}
    return tuple(f"{column}={name}" for column, name in columns.items() if isinstance(name, str) and name != column)


def _file_notes(values: Row, placed: tuple[str, ...], stored_fields: FieldCounts) -> Row:
    """Content of the file outside its rubrics: keys without a place, and schemes of other types."""
    config = drop_empty(values, ("annotation_schemes", *placed))
    maps = _item_columns(values)
    stored_fields.note_all("", {name: value for name, value in config.items() if name != ITEMS or not maps})
    if maps:
        stored_fields.note(f"{ITEMS} (evaluate the items with {' '.join(f'--map {mapping}' for mapping in maps)})")
    schemes = values["annotation_schemes"]
    other_schemes = [raw for raw in schemes if raw["annotation_type"] not in MODELS and not _is_question(raw)]
    stored_fields.note(*(f"annotation_schemes of the type {raw['annotation_type']}" for raw in other_schemes))
    return drop_empty({"config": config, "other_schemes": other_schemes})


def _one_scheme(part: _Part) -> Row:
    base = {"id": identifier(part.name, "rubric"), "version": FIRST_VERSION, "name": part.name}
    return {**base, **part.description, "criteria": part.criteria, **part.rows}


def _many_schemes(parts: list[_Part], title: str, stored_fields: FieldCounts) -> Row:
    categories: list[Row] = []
    criteria: list[Row] = []
    short_first = sorted((part.name for part in parts), key=lambda name: len(name) > LONGEST_CATEGORY)
    ids = DistinctIds("scheme", ANY_CATEGORY)
    category_ids = {name: ids.take(name) for name in short_first}  # the names are distinct
    for part in parts:
        category_id = category_ids[part.name]
        extra = (
            part.kept if category_id == part.name else {**part.kept, **stored_fields.note_all("", {"name": part.name})}
        )
        categories.append({"id": category_id, **part.description, **as_metadata("potato", extra)})
        criteria += [{**criterion, "category": category_id} for criterion in part.criteria]
    base = {"id": identifier(title, "rubric"), "version": FIRST_VERSION, "name": title}
    (rows,) = [part.rows for part in parts if part.rows] or [{}]
    return {**base, "categories": categories, "criteria": criteria, **rows}


EVEN = 1e-9

Texts = dict[str, str]


def write_potato(rubric: Rubric) -> Exported:
    """Write a configuration with the rubric's schemes. Returns also the content that they cannot express."""
    lost_fields = FieldCounts()
    imported = imported_metadata(rubric.metadata, "potato")
    groups = _groups(rubric, lost_fields)
    _note_rubric(rubric, lost_fields)
    schemes, owns = [], []
    for name, criteria in groups.items():
        is_only = len(groups) == 1
        scheme_notes = imported if is_only else _category_notes(rubric, criteria[0].category)
        description = rubric.description if is_only else _category_description(rubric, criteria[0].category)
        is_trajectory = is_of_trajectory(criteria[0])
        blocks = (
            trajectory_blocks(criteria, scheme_notes, lost_fields)
            if is_trajectory
            else _rubric_blocks(criteria, scheme_notes, lost_fields)
        )
        kind = "trajectory_eval" if is_trajectory else "rubric_eval"
        shown_description = {"description": description} if description else {}
        schemes.append({"annotation_type": kind, "name": name, **shown_description, **blocks})
        owns.append(scheme_notes)
    _add_free_rows(rubric, schemes, owns, lost_fields)
    config, other_schemes = mapping_or_empty(imported.get("config")), imported.get("other_schemes")
    if len(groups) > 1:
        config = {"annotation_task_name": rubric.name or rubric.id, **config}
    every = [*schemes, *(other_schemes if isinstance(other_schemes, list) else [])]
    return Exported(plain_yaml({**config, "annotation_schemes": every}), lost_fields.words())


def _note_rubric(rubric: Rubric, lost_fields: FieldCounts) -> None:
    expressed = "taxonomy" if any(map(is_of_trajectory, rubric.criteria)) else ""
    note_lost(
        rubric,
        "potato",
        lost_fields,
        f"name description overall notes {expressed}",
        "name category levels scale",
        "description",
    )
    for criterion in rubric.criteria:
        if not is_of_trajectory(criterion):
            note_method(criterion.method, "ratings", lost_fields)


def _groups(rubric: Rubric, lost_fields: FieldCounts) -> dict[str, list[Criterion]]:
    """Criteria of each scheme, by its name."""
    groups: dict[tuple[str | None, tuple[str, ...]], list[Criterion]] = {}
    for criterion in rubric.criteria:
        category = criterion.category if rubric.categories else None
        points = ("steps",) if is_of_trajectory(criterion) else tuple(_points(criterion.ranked_levels))
        groups.setdefault((category, points), []).append(criterion)
    by_name: dict[str, list[Criterion]] = {}
    for (category, points), criteria in groups.items():
        kept_name = _category_notes(rubric, category).get("name")
        name = kept_name if isinstance(kept_name, str) else category or _title(rubric)
        if name in by_name:
            lost_fields.note("one form for all criteria (a scheme has one scale)")
            name = DistinctIds(taken=by_name).take(f"{name}_{'_to_'.join(points[:1] + points[1:][-1:])}")
        by_name[name] = criteria
    if len(by_name) == 1 and rubric.name and rubric.name not in by_name:
        lost_fields.note("name")
    if len(by_name) > 1 and rubric.description:
        lost_fields.note("description")
    return by_name


def _title(rubric: Rubric) -> str:
    """Name from which an import makes the rubric's id."""
    return rubric.name if rubric.name and identifier(rubric.name, "rubric") == rubric.id else rubric.id


def _category_notes(rubric: Rubric, category_id: str | None) -> Row:
    imported = (
        imported_metadata(category.metadata, "potato") for category in rubric.categories if category.id == category_id
    )
    return next(imported, {})


def _category_description(rubric: Rubric, category_id: str | None) -> str:
    return next((category.description for category in rubric.categories if category.id == category_id), "")


def _points(levels: Sequence[Level]) -> dict[str, Level]:
    """Points for the levels: their ids if these are consecutive whole numbers, else 1 to n."""
    ids = [level.id for level in levels]
    first = int(ids[0]) if ids[0].isascii() and ids[0].isdigit() else 1
    are_points = ids == [str(point) for point in range(first, first + len(ids))]
    return {str(point): level for point, level in enumerate(levels, start=first if are_points else 1)}


def _rubric_blocks(criteria: Sequence[Criterion], imported: Row, lost_fields: FieldCounts) -> Row:
    """Keys of a `rubric_eval`, without its name and description. imported: data stored by the import."""
    overall = next(
        (
            criterion
            for criterion in criteria
            if imported_metadata(criterion.metadata, "potato").get("part") == OVERALL_PART
        ),
        None,
    )
    labels = [_labels(criterion.ranked_levels) for criterion in criteria]
    shared = labels[0] if all(criterion_labels == labels[0] for criterion_labels in labels) else {}
    if not shared and any(level.label for criterion in criteria for level in criterion.ranked_levels):
        lost_fields.note("criteria.levels.label")
    is_weighted = any(
        not criterion.gate and (criterion.weight is None or criterion.weight > 0) for criterion in criteria
    )
    return {
        **_scale(_points(criteria[0].ranked_levels), shared, imported),
        "criteria": [
            _criterion(criterion, lost_fields, is_weighted=is_weighted)
            for criterion in criteria
            if criterion is not overall
        ],
        **drop_empty(mapping_or_empty(imported.get("scheme")), ("scale",)),
        **({} if overall is None else _overall_of_scheme(overall, imported, lost_fields)),
    }


def _overall_of_scheme(criterion: Criterion, imported: Row, lost_fields: FieldCounts) -> Row:
    """Overall row of a further scheme, from its criterion."""
    texts = _descriptions(criterion.ranked_levels, lost_fields)
    description = None if criterion.description == OVERALL_QUESTION else criterion.description
    row = drop_empty({"label": criterion.name, "description": description, "scale_descriptions": texts})
    if not row and imported_metadata(criterion.metadata, "potato").get("spelling") == "show_overall":
        return {"show_overall": True}
    return {"overall": {"enabled": True, **row, **_scheme_notes(imported, "overall")}}


def _labels(levels: Sequence[Level]) -> Texts:
    names = {point: level.label or ("" if level.id == point else level.id) for point, level in _points(levels).items()}
    return {point: name for point, name in names.items() if name}


def _scale(points: dict[str, Level], labels: Texts, imported: Row) -> Row:
    numbers = [int(point) for point in points]
    if imported.get("spelling") == "scale_points" and numbers[0] == 1:
        texts = [labels.get(point, "") for point in points]
        return {"scale_points": len(numbers), **({"scale_labels": texts} if labels else {})}
    label_block = {"labels": {int(point): label for point, label in labels.items()}} if labels else {}
    return {"scale": {"min": numbers[0], "max": numbers[-1], **label_block, **_scheme_notes(imported, "scale")}}


def _scheme_notes(imported: Row, key: str) -> Row:
    return mapping_or_empty(mapping_or_empty(imported.get("scheme")).get(key))


def _criterion(criterion: Criterion, lost_fields: FieldCounts, *, is_weighted: bool) -> Row:
    imported = imported_metadata(criterion.metadata, "potato")
    name = imported.get("name") if isinstance(imported.get("name"), str) else criterion.id
    weight = criterion.weight
    if criterion.gate or (weight is not None and weight < 0):
        weight = 0 if is_weighted else None  # a form with all weights 0 has no score
        kind, written_as = "gate" if criterion.gate else "weight below 0", "weight 0" if is_weighted else "no weight"
        lost_fields.note(f"criteria.{kind} (written with {written_as})")
    texts = _descriptions(criterion.ranked_levels, lost_fields)
    return {
        "name": name,
        **drop_empty({"label": criterion.name}),
        **({} if criterion.description == (criterion.name or name) else {"description": criterion.description}),
        **({} if weight is None else {"weight": plain_number(weight)}),
        **drop_empty({"scale_descriptions": texts}),
        **mapping_or_empty(imported.get("criterion")),
    }


def _descriptions(levels: Sequence[Level], lost_fields: FieldCounts) -> dict[int, str]:
    """Descriptions of the points; records properties of levels that points cannot express."""
    points = _points(levels)
    for index, (point, level) in enumerate(points.items()):
        if level.id != point:
            lost_fields.note("criteria.levels.id")
        if abs(level.score - index / (len(levels) - 1)) > EVEN:
            lost_fields.note("criteria.levels.score (points lie at equal steps)")
        if level.indicators:
            lost_fields.note("criteria.levels.indicators")
    return {int(point): level.description for point, level in points.items() if level.description}


def _add_free_rows(rubric: Rubric, schemes: Sequence[Row], owns: Sequence[Row], lost_fields: FieldCounts) -> None:
    """Put the rubric's overall row and notes into its first `rubric_eval`. owns: stored data of each scheme."""
    forms = [pair for pair in zip(schemes, owns, strict=True) if pair[0]["annotation_type"] == "rubric_eval"]
    if not forms:
        lost_fields.note(*(name for name in ("overall", "notes") if getattr(rubric, name)))
        return
    (first, scheme_notes), overall, notes = forms[0], rubric.overall, rubric.notes
    if overall:
        lowest, highest = _bounds(first)
        points = _points(overall.ranked_levels)
        fits = [*points] == [str(point) for point in range(lowest, highest + 1)]
        texts = _descriptions(overall.ranked_levels, lost_fields) if fits else {}
        if not fits:
            lost_fields.note("overall.scale")
        row = drop_empty({"label": overall.label, "description": overall.description, "scale_descriptions": texts})
        row |= {} if overall.required else {"required": False}
        if "scale_points" in first and not row and not _scheme_notes(scheme_notes, "overall"):
            first["show_overall"] = True
        else:
            first["overall"] = {"enabled": True, **row, **_scheme_notes(scheme_notes, "overall")}
    if notes:
        texts_of_notes = notes.model_dump(exclude_none=True)
        first["notes"] = {"enabled": True, **texts_of_notes, **_scheme_notes(scheme_notes, "notes")}


def _bounds(scheme: Row) -> tuple[int, int]:
    scale = mapping_or_empty(scheme.get("scale"))
    return (scale["min"], scale["max"]) if scale else (1, scheme["scale_points"])


SUMMARY = "annotation schemes that people fill in: rubric_eval, trajectory_eval, likert, slider, and radio of numbers"
FORMAT = Format("potato", SUMMARY, ".yaml", "rubric", read_potato, write_potato)
