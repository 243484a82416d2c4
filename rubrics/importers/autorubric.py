"""AutoRubric lists, YAML or JSON: criteria with a weight and a requirement, and options if they are graded.

The file is a list of criteria, or of sections (`name`, `criteria`), or a mapping with that list under `rubric` or
`sections`. An option that excludes an output from the score (`na: true`) is not a level: here, a judge that cannot
decide leaves the criterion unscored. Such options are stored under `metadata.autorubric`.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, Field, model_validator

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, are_met_levels, met_levels
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_list_or_mapping, plain_yaml
from gradebook.rubrics.importers.ids import LEVEL_ID, DistinctIds, identifier
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
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.rubric import Criterion, Rubric, Weight, effective_weights
from gradebook.rubrics.text.plain_words import Place, quote_value
from gradebook.rubrics.text.wording import counted

USUAL_WEIGHT = 10.0  # the format's default for a criterion without a weight
LONGEST_CATEGORY = 64
_RATER = "ground_truth"
_LABELS = {"met": "MET", "not_met": "UNMET"}
_NO_LABEL = ("CANNOT_ASSESS",)

FullText = Annotated[str, Field(min_length=1)]


class Option(OpenMapping):
    """Option of a criterion."""

    label: FullText
    value: float | None = None
    na: bool | None = None

    @model_validator(mode="after")
    def _has_a_score(self) -> Self:
        if not self.na and (self.value is None or not 0 <= self.value <= 1):
            actual = "nothing" if self.value is None else f"{self.value:g}"
            raise ModelFault("invalid", f"found {actual}, expected a number from 0 to 1", "value")
        return self


def _are_levels(options: list[Option]) -> list[Option]:
    scored = [option for option in options if not option.na]
    if len(scored) < 2:
        raise ValueError(f"found {len(scored)} with a value, expected none or at least two")
    return options


class Question(OpenMapping):
    """Criterion of an AutoRubric file."""

    requirement: FullText
    weight: Weight | None = None
    name: str | None = None
    options: Annotated[list[Option], AfterValidator(_are_levels)] | None = None
    scale_type: Literal["ordinal", "nominal"] | None = None


class Item(OpenMapping):
    """Item of a data set: a submission with people's labels, one per criterion."""

    submission: Any
    description: str | None = None
    prompt: str | None = None
    reference_submission: str | None = None
    rubric: list[Any] | None = None
    ground_truth: list[str | None] | None = None
    reasons: Annotated[list[str | None] | None, Field(validation_alias="ground_truth_reasons")] = None


class Section(OpenMapping):
    """Named section of the list."""

    name: str | None = None
    criteria: list[Any]


def read_autorubric(text: str, path: str) -> Imported:
    """Import the rubric of one AutoRubric file, and the items of a data set; its id is the file's name.

    Where items have rubrics of their own, each row has its criteria, and there is no other rubric.
    """
    reading = open_list_or_mapping(text, path)
    if isinstance(reading.value, dict) and isinstance(reading.value.get("items"), list):
        return _read_data_set(reading, reading.value)
    listed, file_keys, place = _the_list(reading)
    stored_fields = FieldCounts()
    return reading.finish(_rubric(reading, listed, place, file_keys, stored_fields), stored_fields)


def _read_data_set(reading: Reading, data_set: Row) -> Imported:
    stored_fields = FieldCounts()
    items: list[Any] = data_set["items"]
    has_own = any(isinstance(item, dict) and item.get("rubric") for item in items)
    common = {name: data_set.get(name) for name in ("prompt", "reference_submission")}
    file_keys = {name: value for name, value in data_set.items() if name not in ("rubric", "items", *common)}
    criteria: list[Row] = []
    rubric: Row | None = None
    if data_set.get(LIST_KEY) or not has_own:
        listed, _, place = _the_list(reading)
        rubric = _rubric(reading, listed, place, file_keys, stored_fields)
        criteria = rubric["criteria"]
    cases, ratings = _import_items(items, common, criteria, reading, stored_fields, has_own=has_own)
    if has_own or rubric is None:
        return Imported(cases=cases, ratings=ratings, kept=stored_fields.words())
    return replace(reading.finish(rubric, stored_fields), cases=cases, ratings=ratings, kept=stored_fields.words())


def _rubric(reading: Reading, listed: list[Any], place: Place, file_keys: Row, stored_fields: FieldCounts) -> Row:
    sections: dict[str, Row] = {}
    criteria = _criteria(reading, listed, place, sections, stored_fields)
    described = {name: stored_fields.note_all("sections.", extra) for name, extra in sections.items() if extra}
    return {
        "id": identifier(PurePath(reading.path).stem, "rubric"),
        "version": FIRST_VERSION,
        "criteria": criteria,
        **as_metadata("autorubric", drop_empty({"file": stored_fields.note_all("", file_keys), "sections": described})),
    }


def _criteria(
    reading: Reading, listed: list[Any], place: Place, sections: dict[str, Row], stored_fields: FieldCounts
) -> list[Row]:
    """Criteria of a list; the content of sections is put into `sections`."""
    ids = DistinctIds()
    entries = [
        (reading.fit(Question, entry, here), section)
        for here, section, entry in _entries(listed, place, sections, reading)
    ]
    return [_criterion(question, section, ids, stored_fields) for question, section in entries if question]


def _import_items(
    items: list[Any], common: Row, criteria: list[Row], reading: Reading, stored_fields: FieldCounts, *, has_own: bool
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Rows of a data set's submissions, and its labels as ratings by `ground_truth`; raises for a fault.

    common: the data set's prompt and reference, for items without their own. has_own: rows have their criteria.
    """
    rows: list[Row] = []
    ratings: list[Row] = []
    for index, entry in enumerate(items):
        place: Place = ("items", index)
        item = reading.fit(Item, entry, place)
        if item is None:
            continue
        submission = item.submission
        text = submission if isinstance(submission, str) else json.dumps(submission, ensure_ascii=False)
        prompt, reference = item.prompt or common["prompt"], item.reference_submission or common["reference_submission"]
        listed = item.rubric or []
        own = _criteria(reading, listed, (*place, LIST_KEY), {}, stored_fields) if listed else criteria
        if not own:
            stored_fields.note("items without a criterion (neither they nor the data set have a rubric)")
        extra = stored_fields.note_all("items.", drop_empty({"description": item.description, **item.unknown_keys}))
        row = {
            "case_id": f"case_{index + 1}",
            "model": UNKNOWN_MODEL,
            "output": text,
            **{name: text for name, text in (("prompt", prompt), ("reference", reference)) if _is_text(text)},
            **({"criteria": own} if has_own else {}),
            **as_metadata("autorubric", extra),
        }
        rows.append(row)
        ratings += _labels(item, row, own, reading, place)
    reading.stop_at_faults()
    return tuple(rows), tuple(ratings)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _labels(item: Item, row: Row, criteria: list[Row], reading: Reading, place: Place) -> Iterator[Row]:
    labels = item.ground_truth or []
    if labels and len(labels) != len(criteria):
        message = f"found {counted(len(labels), 'label')}, expected {len(criteria)}: one for each criterion"
        reading.note((*place, "ground_truth"), message)
        return
    reasons = item.reasons or []
    for index, (label, criterion) in enumerate(zip(labels, criteria, strict=bool(labels))):
        if label is None or label in _NO_LABEL:
            continue
        levels = {_LABELS.get(level["id"], level["description"]): level["id"] for level in criterion["levels"]}
        na_options = mapping_or_empty(mapping_or_empty(criterion.get("metadata")).get("autorubric")).get("na_options")
        if any(option["label"] == label for option in na_options or ()):
            continue
        if label not in levels:
            reading.note(
                (*place, "ground_truth", index), f"found {quote_value(label)}, expected one of {', '.join(levels)}"
            )
            continue
        notes = reasons[index] if index < len(reasons) else None
        rating = {**{name: row[name] for name in ("case_id", "model")}, "criterion_id": criterion["id"]}
        yield {**rating, "rater": _RATER, "level_id": levels[label], **drop_empty({"notes": notes})}


def _the_list(reading: Reading) -> tuple[list[Any], Row, Place]:
    """List of criteria or sections, the other keys of the file, and the place of the list."""
    value, place = reading.value, cast("Place", ())
    other_keys: Row = {}
    while isinstance(value, dict):
        key = next((key for key in ("rubric", "sections") if key in value), None)
        if key is None or len(place) == 2:
            reading.stop(place, "found a mapping without rubric or sections, expected a list of criteria")
        prefix = ".".join(map(str, place))
        siblings = {name: entry for name, entry in value.items() if name != key}
        other_keys |= {f"{prefix}.{name}" if prefix else name: entry for name, entry in siblings.items()}
        value, place = value[key], (*place, key)
    if not isinstance(value, list):
        reading.stop(place, f"found {quote_value(value)}, expected a list of criteria")
    if not value:
        reading.stop(place, "found an empty list, expected at least one criterion")
    return value, other_keys, place


def _entries(
    listed: list[Any], place: Place, sections: dict[str, Row], reading: Reading
) -> Iterator[tuple[Place, str | None, Any]]:
    """Each criterion, not validated yet, with its place and its section; adds the sections' content to `sections`."""
    for index, entry in enumerate(listed):
        here = (*place, index)
        if not isinstance(entry, dict) or "criteria" not in entry:
            yield here, None, entry
            continue
        section = reading.fit(Section, entry, here)
        if section is None:
            continue
        name = section.name or f"section {index + 1}"
        category = name[:LONGEST_CATEGORY]
        if category in sections:
            reading.note((*here, "name"), f"found {category!r} again, expected each section once")
        if not section.criteria:
            reading.note((*here, "criteria"), "found an empty list, expected at least one criterion")
        sections[category] = section.unknown_keys | ({"name": name} if name != category else {})
        yield from (((*here, "criteria", number), category, inner) for number, inner in enumerate(section.criteria))


def _criterion(question: Question, section: str | None, ids: DistinctIds, stored_fields: FieldCounts) -> Row:
    criterion_id = ids.take(question.name or question.requirement)
    options = question.options or []
    scored = [option for option in options if not option.na]
    na_options = [option.model_dump(exclude_unset=True) for option in options if option.na]
    extra = drop_empty({"scale_type": question.scale_type, "na_options": na_options, **question.unknown_keys})
    level_ids = DistinctIds("level", LEVEL_ID)
    levels: list[Row] = [
        {"id": level_ids.take(option.label), "score": option.value, "description": option.label} for option in scored
    ]
    of_options = {
        level["id"]: stored_fields.note_all("options.", option.unknown_keys)
        for level, option in zip(levels, scored, strict=True)
    }
    return {
        "id": criterion_id,
        **drop_empty({"name": question.name if question.name != criterion_id else None, "category": section}),
        "description": question.requirement,
        "weight": plain_number(USUAL_WEIGHT if question.weight is None else question.weight),
        "levels": levels or met_levels(),
        "method": {"type": "judge"},
        **as_metadata(
            "autorubric", stored_fields.note_all("", extra) | drop_empty({"options": drop_empty(of_options)})
        ),
    }


LIST_KEY = "rubric"


def write_autorubric(rubric: Rubric) -> Exported:
    """Write the rubric as YAML, one section per category; gates are included with the weight 0."""
    lost_fields = FieldCounts()
    note_lost(rubric, "autorubric", lost_fields, "", "name category gate levels scale")
    imported = imported_metadata(rubric.metadata, "autorubric")
    weights = effective_weights(rubric)
    entries: list[Row] = []
    sections: dict[str, Row] = {}
    for criterion in rubric.criteria:
        question = _question(criterion, weights[criterion.id], lost_fields)
        name = criterion.category
        if name is None:
            entries.append(question)
        elif name in sections:
            sections[name]["criteria"].append(question)
            if entries[-1] is not sections[name]:
                lost_fields.note("the order of criteria (those of a section stand together)")
        else:
            extra = mapping_or_empty(mapping_or_empty(imported.get("sections")).get(name))
            sections[name] = {"name": name, **extra, "criteria": [question]}
            entries.append(sections[name])
    file_keys = mapping_or_empty(imported.get("file"))
    content = {**file_keys, LIST_KEY: entries} if file_keys else entries
    return Exported(plain_yaml(content), lost_fields.words())


def _question(criterion: Criterion, weight: float, lost_fields: FieldCounts) -> Row:
    note_method(criterion.method, "judge", lost_fields)
    if criterion.gate:
        lost_fields.note("criteria.gate (written with the weight 0)")
    imported = imported_metadata(criterion.metadata, "autorubric")
    na_options = imported.get("na_options")
    options = _options(criterion, imported, lost_fields)
    options += na_options if options and isinstance(na_options, list) else []
    question: Row = {
        "name": criterion.name or criterion.id,
        "requirement": criterion.description,
        "weight": plain_number(weight),
        **({"scale_type": imported["scale_type"]} if imported.get("scale_type") in ("ordinal", "nominal") else {}),
        **drop_empty({"options": options}),
    }
    placed = (*question, "scale_type", "na_options", "options")
    return question | {key: value for key, value in imported.items() if key not in placed}


def _ids_read_from(labels: list[str]) -> list[str]:
    """Ids that an import would make of the options' labels."""
    ids = DistinctIds("level", LEVEL_ID)
    return [ids.take(label) for label in labels]


def _options(criterion: Criterion, imported: Row, lost_fields: FieldCounts) -> list[Row]:
    """Levels as options; empty if they only mean not met and met."""
    if are_met_levels(criterion):
        return []
    levels = criterion.scale.levels if criterion.scale else criterion.levels
    lost_fields.note(*("criteria.levels.indicators" for level in levels if level.indicators))
    texts = [": ".join(filter(None, (level.label, level.description))) or level.id for level in levels]
    labels = texts
    if _ids_read_from(texts) != [
        level.id for level in levels
    ]:  # otherwise the texts come from an import and may repeat
        labels = [
            f"{level.id}: {text}" if texts.count(text) > 1 else text for level, text in zip(levels, texts, strict=True)
        ]
    pairs = zip(levels, _ids_read_from(labels), strict=True)
    lost_fields.note(
        *("criteria.levels.id (made anew of the option's label)" for level, again in pairs if again != level.id)
    )
    extra = mapping_or_empty(imported.get("options"))
    return [
        {"label": label, "value": plain_number(level.score), **mapping_or_empty(extra.get(level.id))}
        for level, label in zip(levels, labels, strict=True)
    ]


SUMMARY = "a list of weights and requirements, with options for graded ones"
FORMAT = Format("autorubric", SUMMARY, ".yaml", "rubric", read_autorubric, write_autorubric)
