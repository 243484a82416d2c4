"""Import of AutoRubric lists."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, Field, model_validator

from gradebook.rubrics.importers.autorubric.lists import open_list_or_mapping
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading
from gradebook.rubrics.importers.ids import LEVEL_ID, DistinctIds, identifier
from gradebook.rubrics.importers.interfaces import Imported
from gradebook.rubrics.importers.metadata import FIRST_VERSION, Kept, filled, kept_as, plain_number
from gradebook.rubrics.importers.requirements import met_levels
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Weight
from gradebook.rubrics.text.plain_words import Place, shown

USUAL_WEIGHT = 10.0  # the format's default for a criterion without a weight
LONGEST_CATEGORY = 64

FullText = Annotated[str, Field(min_length=1)]


class Option(OpenMapping):
    """Option of a criterion."""

    label: FullText
    value: float | None = None
    na: bool | None = None

    @model_validator(mode="after")
    def _has_a_score(self) -> Self:
        if not self.na and (self.value is None or not 0 <= self.value <= 1):
            found = "nothing" if self.value is None else f"{self.value:g}"
            raise ModelFault("invalid", f"found {found}, expected a number from 0 to 1", "value")
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


class Section(OpenMapping):
    """Named section of the list."""

    name: str | None = None
    criteria: list[Any]


def read_autorubric(text: str, path: str) -> Imported:
    """Import the rubric of one AutoRubric file; its id is the file's name."""
    reading = open_list_or_mapping(text, path)
    listed, beside, place = _the_list(reading)
    kept = Kept()
    sections: dict[str, Row] = {}
    ids = DistinctIds()
    criteria: list[Row] = []
    for here, section, entry in _entries(listed, place, sections, reading):
        question = reading.fit(Question, entry, here)
        if question:
            criteria.append(_criterion(question, section, ids, kept))
    described = {name: kept.note_all("sections.", left) for name, left in sections.items() if left}
    rubric: Row = {
        "id": identifier(PurePath(path).stem, "rubric"),
        "version": FIRST_VERSION,
        "criteria": criteria,
        **kept_as("autorubric", filled({"file": kept.note_all("", beside), "sections": described})),
    }
    return reading.finish(rubric, kept)


def _the_list(reading: Reading) -> tuple[list[Any], Row, Place]:
    """List of criteria or sections, the other keys of the file, and the place of the list."""
    value, place = reading.value, cast("Place", ())
    beside: Row = {}
    while isinstance(value, dict):
        key = next((key for key in ("rubric", "sections") if key in value), None)
        if key is None or len(place) == 2:
            reading.stop(place, "found a mapping without rubric or sections, expected a list of criteria")
        around = ".".join(map(str, place))
        others = {name: entry for name, entry in value.items() if name != key}
        beside |= {f"{around}.{name}" if around else name: entry for name, entry in others.items()}
        value, place = value[key], (*place, key)
    if not isinstance(value, list):
        reading.stop(place, f"found {shown(value)}, expected a list of criteria")
    if not value:
        reading.stop(place, "found an empty list, expected at least one criterion")
    return value, beside, place


def _entries(
    listed: list[Any], place: Place, sections: dict[str, Row], reading: Reading
) -> Iterator[tuple[Place, str | None, Any]]:
    """Each criterion, not yet validated, with its place and its section; the content of sections is put into
    `sections`.
    """
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
        sections[category] = section.left | ({"name": name} if name != category else {})
        yield from (((*here, "criteria", number), category, inner) for number, inner in enumerate(section.criteria))


def _criterion(question: Question, section: str | None, ids: DistinctIds, kept: Kept) -> Row:
    made = ids.take(question.name or question.requirement)
    options = question.options or []
    scored = [option for option in options if not option.na]
    aside = [option.model_dump(exclude_unset=True) for option in options if option.na]
    left = filled({"scale_type": question.scale_type, "na_options": aside, **question.left})
    level_ids = DistinctIds("level", LEVEL_ID)
    levels: list[Row] = [
        {"id": level_ids.take(option.label), "score": option.value, "description": option.label} for option in scored
    ]
    of_options = {level["id"]: kept.note_all("options.", each.left) for level, each in zip(levels, scored, strict=True)}
    return {
        "id": made,
        **filled({"name": question.name if question.name != made else None, "category": section}),
        "description": question.requirement,
        "weight": plain_number(USUAL_WEIGHT if question.weight is None else question.weight),
        "levels": levels or met_levels(),
        "method": {"type": "judge"},
        **kept_as("autorubric", kept.note_all("", left) | filled({"options": filled(of_options)})),
    }
