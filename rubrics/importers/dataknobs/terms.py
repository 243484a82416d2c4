"""Conversion between dataknobs rubrics and gradebook's terms.

A plain rubric is the intermediate form: the gradebook keys with a place in dataknobs. For a criterion these are `id`,
`name`, `description`, `weight` (0 or more), `method` (without its settings) and `levels`. `understand_...` extracts the
plain part of a foreign rubric, `express_...` makes a foreign one of it; `gradebook.rubrics.importers.dataknobs.notes`
handles the difference.
"""

import re
from collections.abc import Collection
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gradebook.rubrics.importers.dataknobs.overlays import LEFT_OUT
from gradebook.rubrics.importers.foreign_file import OpenMapping
from gradebook.rubrics.importers.ids import LEVEL_ID, DistinctIds, complete_version, identifier
from gradebook.rubrics.importers.metadata import FIRST_VERSION, filled, given
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.levels import Share, pass_or_fail
from gradebook.rubrics.model.methods import FUNCTION_PATTERN
from gradebook.rubrics.model.own_templates import check_template
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT

CHECK_PREFIX = "gradebook:"  # function_ref of a check: gradebook:length_words
FUNCTION_STAND_IN = "dataknobs:function_ref"  # for a reference that is not a `module.path:function`
SCHEMA_STAND_IN = "dataknobs:schema_ref"  # for a schema in another file: nothing is fetched, so nothing is scored
# dataknobs adds the criterion's description and levels itself; the template only shows the content to classify.
DECODE_PROMPT = (
    "{% if prompt is defined %}What was asked:\n{{ prompt }}\n\n{% endif %}What is to be classified:\n{{ output }}\n"
)

NO_TARGET_TYPE = "output"  # dataknobs requires a name for the evaluated content
NAMESPACES = ("gradebook", "dataknobs")  # keys of `metadata` for the notes of the two formats

FullText = Annotated[str, Field(min_length=1)]


class _Foreign(OpenMapping):
    """Base of all mappings of such a file."""

    @model_validator(mode="after")
    def _no_reserved_key(self) -> Self:
        if LEFT_OUT in (self.model_extra or {}):
            raise ModelFault(
                "invalid", "found this key, expected another one: imports use it for their own notes", LEFT_OUT
            )
        return self


class ForeignLevel(_Foreign):
    """Level of a dataknobs file."""

    id: FullText
    label: str | None = None
    description: str | None = None
    score: Share
    indicators: list[str] | None = None


class ForeignMethod(_Foreign):
    """Scoring method of a dataknobs criterion."""

    type: Literal["deterministic", "schema", "llm_decode"]
    function_ref: str | None = None
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    schema_ref: str | None = None
    decode_prompt: str | None = None
    decode_output_schema: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _names_what_scores(self) -> Self:
        if self.type == "deterministic" and not self.function_ref:
            raise ModelFault("invalid", "found nothing, expected one for the type deterministic", "function_ref")
        if self.type == "schema" and self.json_schema is None and not self.schema_ref:
            raise ModelFault("invalid", "found no schema and no schema_ref, expected one of them", "schema")
        return self


class ForeignCriterion(_Foreign):
    """Criterion of a dataknobs file."""

    id: FullText
    name: str | None = None
    description: str | None = None
    weight: Annotated[float, Field(ge=0, le=LARGEST_WEIGHT)]
    required: bool | None = None
    levels: list[ForeignLevel] | None = None
    scoring_method: ForeignMethod


class ForeignRubric(_Foreign):
    """Rubric of a dataknobs file."""

    id: FullText
    name: str | None = None
    description: str | None = None
    version: str | None = None
    target_type: str | None = None
    pass_threshold: Share | None = None
    metadata: dict[str, Any] | None = None
    criteria: Annotated[list[ForeignCriterion], Field(min_length=1)]


def understand_head(foreign: ForeignRubric) -> Row:
    """Plain rubric without its criteria."""
    rubric_id = identifier(foreign.id)
    plain = {
        "id": rubric_id,
        "version": complete_version(foreign.version or "") or FIRST_VERSION,
        "name": None if foreign.name == rubric_id else foreign.name,
        "description": foreign.description or None,
        "target_type": foreign.target_type,
        "pass_threshold": foreign.pass_threshold,
        "metadata": without_namespaces(foreign.metadata or {}) or None,
    }
    return given(plain)


def express_rubric(plain: Row, omitted: Collection[str] = ()) -> Row:
    """Foreign rubric of a plain one, in dataknobs' key order."""
    return {
        "id": plain["id"],
        "name": plain.get("name", plain["id"]),
        "description": plain.get("description", ""),
        "version": plain["version"],
        "target_type": plain.get("target_type", NO_TARGET_TYPE),
        "criteria": [express_criterion(criterion, omitted) for criterion in plain["criteria"]],
        "pass_threshold": plain.get("pass_threshold", 0),
        "metadata": without_namespaces(plain.get("metadata", {})),
    }


def understand_criterion(foreign: ForeignCriterion, criterion_id: str) -> Row:
    """Plain criterion of a foreign one; the difference is found by expressing it again."""
    plain = {
        "id": criterion_id,
        "name": None if foreign.name == criterion_id else foreign.name,
        "description": foreign.description or foreign.name or criterion_id,
        "weight": foreign.weight,
        "required": False if foreign.required is False else None,
        "levels": _understand_levels(foreign.levels or []) or None,
        "method": _understand_method(foreign.scoring_method),
    }
    return given(plain)


def express_criterion(plain: Row, omitted: Collection[str] = ()) -> Row:
    """Foreign criterion of a plain one. omitted: defaults that this file does not write."""
    levels = plain.get("levels") or [{"id": level.id, "score": level.score} for level in pass_or_fail()]
    foreign = {
        "id": plain["id"],
        "name": plain.get("name", plain["id"]),
        "description": plain["description"],
        "weight": plain["weight"],
        "levels": [_express_level(level, omitted) for level in levels],
        "scoring_method": _express_method(plain["method"]),
        "required": plain.get("required", True),
    }
    return {key: value for key, value in foreign.items() if key not in omitted or value is False}


def without_namespaces(metadata: Row) -> Row:
    """Metadata without the notes of either format."""
    return {key: value for key, value in metadata.items() if key not in NAMESPACES}


def _understand_levels(foreign: list[ForeignLevel]) -> list[Row]:
    ids = DistinctIds("level", LEVEL_ID)
    levels: list[Row] = []
    for level in foreign:
        level_id = ids.take(level.id)
        label = None if level.label in (None, level_id) else level.label
        texts = {"description": level.description, "indicators": level.indicators}
        levels.append({"id": level_id, "score": level.score, **given({"label": label}), **filled(texts)})
    return levels


def _express_level(level: Row, omitted: Collection[str]) -> Row:
    foreign = {
        "id": level["id"],
        "label": level.get("label", level["id"]),
        "description": level.get("description", ""),
        "score": level["score"],
    }
    indicators = list(level.get("indicators", ()))
    return foreign if "indicators" in omitted and not indicators else foreign | {"indicators": indicators}


def _understand_method(foreign: ForeignMethod) -> Row:
    reference = foreign.function_ref or ""
    if foreign.type == "llm_decode":
        template = foreign.decode_prompt
        is_own = template is not None and template != DECODE_PROMPT and _is_template(template)
        return {"type": "judge"} | ({"template": template} if is_own else {})
    if foreign.type == "schema":
        if foreign.json_schema is None:
            return {"type": "function", "function": SCHEMA_STAND_IN}
        return {"type": "schema", "schema": foreign.json_schema}
    if reference.removeprefix(CHECK_PREFIX) not in ("", reference):
        return {"type": "check", "check": reference.removeprefix(CHECK_PREFIX)}
    if re.fullmatch(FUNCTION_PATTERN, reference) is None:
        return {"type": "function", "function": FUNCTION_STAND_IN}
    return {"type": "function", "function": reference, "takes": "content"}


def _is_template(text: str) -> bool:
    """Whether a judge can be shown a case by a text; any other is stored, and all columns are shown."""
    try:
        return bool(check_template(text))
    except ValueError:
        return False


def _express_method(plain: Row) -> Row:
    match plain["type"]:
        case "check":
            return {"type": "deterministic", "function_ref": CHECK_PREFIX + plain["check"]}
        case "function":
            return {"type": "deterministic", "function_ref": plain["function"]}
        case "schema":
            return {"type": "schema", "schema": plain["schema"]}
    return {"type": "llm_decode", "decode_prompt": plain.get("template", DECODE_PROMPT)}
