"""Import and export of dataknobs rubrics (JSON; each criterion has levels and a scoring method), lossless both ways.

Content of dataknobs without a place in gradebook is stored under `metadata.dataknobs` of the rubric and of its
criteria; content of gradebook without a place in dataknobs is stored under `metadata.gradebook` of the foreign rubric.

A schema that is only named (`schema_ref`) is read if it is a file below the rubric's folder; nothing is fetched. A
criterion without one cannot be scored: it gets the method
`function` with a placeholder name, which an evaluation refuses before any money is spent; a judge would answer another
question, and an empty schema would accept everything. The same applies to a `function_ref` that is not a
`module.path:function`.

A plain rubric is the intermediate form: the gradebook keys with a place in dataknobs. For a criterion these are `id`,
`name`, `description`, `weight` (0 or more), `method` (without its settings) and `levels`. `to_plain_...` extracts the
plain part of a foreign rubric, `express_...` converts it back, and `notes_of...` gives the difference.

`metadata.dataknobs` of a rubric and of its criteria: content of the foreign file that the plain rubric lacks.
`metadata.gradebook` of a foreign rubric: content of the rubric that the plain one lacks, criteria by their foreign id.

Both are overlays. A part of `metadata.dataknobs` that would undo an edit made since the import is not applied.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from gradebook.rubrics.files.dump import rubric_values
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, indented_json, open_json
from gradebook.rubrics.importers.ids import LEVEL_ID, DistinctIds, complete_version, identifier, may_derive_from
from gradebook.rubrics.importers.metadata import (
    FIRST_VERSION,
    FieldCounts,
    as_metadata,
    drop_empty,
    imported_metadata,
    mapping_or_empty,
)
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.errors import ModelFault, RubricError
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.model.levels import Share, pass_or_fail
from gradebook.rubrics.model.methods import FUNCTION_PATTERN
from gradebook.rubrics.model.own_templates import check_template
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT, Criterion, Rubric, effective_weights
from gradebook.rubrics.schemas.files import read_schema
from gradebook.rubrics.text.plain_words import quote_value

CHECK_PREFIX = "gradebook:"  # function_ref of a check: gradebook:length_words
FUNCTION_PLACEHOLDER = "dataknobs:function_ref"  # method of a criterion whose reference is not a `module.path:function`
SCHEMA_PLACEHOLDER = "dataknobs:schema_ref"  # method of a criterion whose schema can't be read: nothing is fetched
# dataknobs adds the criterion's description and levels itself; the template only shows the content to classify.
DECODE_PROMPT = (
    "{% if prompt is defined %}What was asked:\n{{ prompt }}\n\n{% endif %}What is to be classified:\n{{ output }}\n"
)

NO_TARGET_TYPE = "output"  # default, as dataknobs requires a name for the evaluated content
NAMESPACES = ("gradebook", "dataknobs")  # keys of `metadata` for the notes of the two formats

FullText = Annotated[str, Field(min_length=1)]


class _Foreign(OpenMapping):
    """Base of all mappings of a dataknobs file."""

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


def to_plain_head(foreign: ForeignRubric) -> Row:
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
    return drop_none(plain)


def express_rubric(plain: Row, omitted: Collection[str] = ()) -> Row:
    """Convert a plain rubric to a foreign one, with keys in dataknobs' order."""
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


def to_plain_criterion(foreign: ForeignCriterion, criterion_id: str) -> Row:
    """Convert a foreign criterion to a plain one."""
    plain = {
        "id": criterion_id,
        "name": None if foreign.name == criterion_id else foreign.name,
        "description": foreign.description or foreign.name or criterion_id,
        "weight": foreign.weight,
        "required": False if foreign.required is False else None,
        "levels": _to_plain_levels(foreign.levels or []) or None,
        "method": _to_plain_method(foreign.scoring_method),
    }
    return drop_none(plain)


def express_criterion(plain: Row, omitted: Collection[str] = ()) -> Row:
    """Convert a plain criterion to a foreign one. omitted: defaults that this file does not write."""
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


def _to_plain_levels(foreign: list[ForeignLevel]) -> list[Row]:
    ids = DistinctIds("level", LEVEL_ID)
    levels: list[Row] = []
    for level in foreign:
        level_id = ids.take(level.id)
        label = None if level.label in (None, level_id) else level.label
        texts = {"description": level.description, "indicators": level.indicators}
        levels.append({"id": level_id, "score": level.score, **drop_none({"label": label}), **drop_empty(texts)})
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


def _to_plain_method(foreign: ForeignMethod) -> Row:
    reference = foreign.function_ref or ""
    if foreign.type == "llm_decode":
        template = foreign.decode_prompt
        is_own = template is not None and template != DECODE_PROMPT and _is_template(template)
        return {"type": "judge"} | ({"template": template} if is_own else {})
    if foreign.type == "schema":
        if foreign.json_schema is None:
            return {"type": "function", "function": SCHEMA_PLACEHOLDER}
        return {"type": "schema", "schema": foreign.json_schema}
    if reference.removeprefix(CHECK_PREFIX) not in ("", reference):
        return {"type": "check", "check": reference.removeprefix(CHECK_PREFIX)}
    if re.fullmatch(FUNCTION_PATTERN, reference) is None:
        return {"type": "function", "function": FUNCTION_PLACEHOLDER}
    return {"type": "function", "function": reference, "takes": "content"}


def _is_template(text: str) -> bool:
    """Whether a text is a valid template for a case. Otherwise it is only stored, and all columns are shown."""
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


OURS, THEIRS = NAMESPACES
DEFAULTS = {"required": "criteria.required", "indicators": "levels.indicators"}  # defaults that a file may always omit

# Content that dataknobs reads in another form: a name equal to the id, a scale as levels, effective weights.
RESTATED_KEYS = ("name", "scale", "levels")
NESTED = ("scoring_method", "levels")  # parts of a criterion's notes that are overlays themselves


def notes_of(part: Row) -> Row:
    """Notes that an import left in a rubric's or criterion's metadata; empty if there is anything else."""
    return imported_metadata(mapping_or_empty(part.get("metadata")), THEIRS)


def omitted_defaults(foreign: Row) -> list[str]:
    """Defaults that the foreign file omits somewhere: its export omits them too."""
    criteria = foreign["criteria"]
    levels = [level for criterion in criteria for level in criterion.get("levels") or ()]
    return [
        key for key, entries in (("required", criteria), ("indicators", levels)) if any(key not in p for p in entries)
    ]


def omitted_by(notes: Row) -> list[str]:
    """Defaults omitted by the file, according to a rubric's notes."""
    return [key for key, name in DEFAULTS.items() if name in absent_names(notes)]


def notes_of_rubric(foreign: Row, expressed: Row, omitted: Collection[str]) -> Row:
    """Content of the foreign rubric, without its criteria, that is missing after converting it back."""
    notes = overlay_of(head_of(foreign), head_of(expressed))
    names = [*absent_names(notes), *(DEFAULTS[key] for key in omitted)]
    return {**notes, LEFT_OUT: names} if names else notes


def notes_of_criterion(foreign: Row, expressed: Row, plain: Row) -> Row:
    """Content of the foreign criterion that is missing after converting it back; levels by gradebook's ids."""
    notes = overlay_of(foreign, expressed, ("scoring_method",))
    levels = plain.get("levels", ())
    if "levels" in notes and levels:
        pairs = zip(foreign["levels"], expressed["levels"], strict=True)
        overlays = [overlay_of(theirs, again) for theirs, again in pairs]
        notes["levels"] = {level["id"]: extra for level, extra in zip(levels, overlays, strict=True) if extra}
    return notes


def head_of(rubric: Row) -> Row:
    """Copy of a plain or foreign rubric without its criteria."""
    return {key: value for key, value in rubric.items() if key != "criteria"}


def apply_notes(expressed: Row, plain: Row, wanted: Row) -> Row:
    """Apply an import's notes to the foreign rubric, as long as gradebook still reads the wanted content from it.

    expressed: the foreign rubric of the plain one; wanted: the keys of the rubric, with the notes.
    """

    def read(candidate: Row) -> Row:
        head = ForeignRubric.model_validate({**candidate, "criteria": expressed["criteria"]})
        fits = may_derive_from(plain["id"], head.id)
        return {"metadata": {}, **to_plain_head(head), "id": plain["id"] if fits else None}

    head = head_of(plain) | {"metadata": without_namespaces(plain.get("metadata", {}))}
    foreign = _apply_if_readable(head_of(expressed), notes_of(wanted), read, head)
    if isinstance(foreign.get("metadata"), dict):
        foreign["metadata"] = {key: value for key, value in foreign["metadata"].items() if key != OURS}
    criteria: list[Row] = []
    taken_ids: set[str] = set()
    for criterion, plain_criterion, wanted_criterion in zip(
        expressed["criteria"], plain["criteria"], wanted["criteria"], strict=True
    ):
        criteria.append(_apply_criterion_notes(criterion, plain_criterion, notes_of(wanted_criterion), taken_ids))
        taken_ids.add(criteria[-1]["id"])
    return {**foreign, "criteria": criteria}


def overlay_of_rubric(wanted: Row, back: Row, foreign: Row) -> Row:
    """Content of the rubric that gradebook would not read back from the foreign one."""
    overlay = overlay_of(head_of(wanted), head_of(back))
    criteria = {
        theirs["id"]: overlay_of(criterion, again, ("method",))
        for criterion, again, theirs in zip(wanted["criteria"], back["criteria"], foreign["criteria"], strict=True)
    }
    return overlay | drop_empty({"criteria": drop_empty(criteria)})


def apply_rubric_overlay(rubric: Row, overlay: Row, foreign: Row, stored_fields: FieldCounts) -> Row:
    """Apply the notes that an export left in the foreign rubric's metadata."""
    extra = dict(overlay.get("criteria", {}))
    criteria = [
        with_overlay(criterion, extra.pop(theirs["id"], {}), ("method",))
        for criterion, theirs in zip(rubric["criteria"], foreign["criteria"], strict=True)
    ]
    for criterion_id in extra:
        stored_fields.note(f"metadata.{OURS}.criteria.{criterion_id} (no criterion has that id: dropped)")
    return {**with_overlay(head_of(rubric), head_of(overlay)), "criteria": criteria}


def stored_names(rubric: Row) -> Iterator[str]:
    """Foreign names of the content under `metadata.dataknobs`, one per occurrence."""
    yield from _names("", notes_of(rubric))
    for criterion in rubric["criteria"]:
        notes = notes_of(criterion)
        method, levels = mapping_or_empty(notes.get("scoring_method")), mapping_or_empty(notes.get("levels"))
        yield from _names("criteria.", {key: value for key, value in notes.items() if key not in NESTED})
        yield from _names("scoring_method.", {key: value for key, value in method.items() if key != "type"})
        for extra in levels.values():
            yield from _names("levels.", mapping_or_empty(extra))


def unseen_names(content: Row) -> Iterator[str]:
    """Names of the content that is only under `metadata.gradebook`, which dataknobs does not read."""
    yield from (key for key in content if key not in ("criteria", LEFT_OUT, *RESTATED_KEYS))
    for overlay in content.get("criteria", {}).values():
        is_penalty = overlay.get("weight", 0) < 0
        seen = (LEFT_OUT, *RESTATED_KEYS, *(() if is_penalty else ("weight",)))
        yield from (f"criteria.{key}" for key in overlay if key not in seen)


def _names(prefix: str, notes: Row) -> Iterator[str]:
    yield from (f"{prefix}{key}" for key in drop_empty(notes, (LEFT_OUT,)))


def _apply_criterion_notes(expressed: Row, plain: Row, notes: Row, taken: Collection[str]) -> Row:
    def read(candidate: Row) -> Row:
        foreign = ForeignCriterion.model_validate(candidate)
        fits = foreign.id not in taken and may_derive_from(plain["id"], foreign.id)
        return to_plain_criterion(foreign, plain["id"]) | {"id": plain["id"] if fits else None}

    if isinstance(notes.get("levels"), dict):
        ids = [level["id"] for level in plain.get("levels") or expressed["levels"]]
        overlays = [notes["levels"].get(level_id) for level_id in ids]
        pairs = zip(expressed["levels"], overlays, strict=True)
        levels = [with_overlay(level, overlay) if isinstance(overlay, dict) else level for level, overlay in pairs]
        notes = {**notes, "levels": levels}
    return _apply_if_readable(expressed, notes, read, plain)


def _apply_if_readable(foreign: Row, notes: Row, read: Callable[[Row], Row], wanted: Row) -> Row:
    """Apply each part of an overlay unless the result can't be read, or differs more from the wanted content."""
    read_before = read(foreign)
    overlays = [{key: value} for key, value in notes.items() if key != LEFT_OUT]
    for part in [*overlays, *({LEFT_OUT: [name]} for name in absent_names(notes))]:
        candidate = with_overlay(foreign, part, ("scoring_method",))
        try:
            read_now = read(candidate)
        except ValidationError:
            continue
        keys = {*read_now, *read_before}
        if all(read_now.get(key) in (read_before.get(key), wanted.get(key)) for key in keys):
            foreign, read_before = candidate, read_now
    return foreign


LEFT_OUT = "left_out"  # key of an overlay with the names that `wanted` lacks


def overlay_of(wanted: dict[str, Any], current: dict[str, Any], nested: Collection[str] = ()) -> dict[str, Any]:
    """Keys of `wanted` that `current` lacks or has with another value; empty if the two are equal.

    nested: keys whose mappings are compared recursively; all other values are taken whole.
    """
    overlay: dict[str, Any] = {}
    for key, value in wanted.items():
        if key not in current or current[key] != value:
            is_nested = key in nested and isinstance(value, dict) and isinstance(current.get(key), dict)
            overlay[key] = overlay_of(value, current[key]) if is_nested else value
    absent = [key for key in current if key not in wanted]
    return overlay | ({LEFT_OUT: absent} if absent else {})


def with_overlay(current: dict[str, Any], overlay: dict[str, Any], nested: Collection[str] = ()) -> dict[str, Any]:
    """`current` with the keys of the overlay, and without the names that it omits."""
    omitted = absent_names(overlay)
    merged = {key: value for key, value in current.items() if key not in omitted}
    for key, value in overlay.items():
        if key != LEFT_OUT:
            is_nested = key in nested and isinstance(value, dict) and isinstance(current.get(key), dict)
            merged[key] = with_overlay(current[key], value) if is_nested else value
    return merged


def absent_names(overlay: dict[str, Any]) -> list[str]:
    """Names that an overlay omits; empty if that is not a list of names."""
    names = overlay.get(LEFT_OUT)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


CONFIG = f"{THEIRS}_config"  # key of `metadata` with the other content of a config file
MOST_LISTED_IDS = 20


def read_dataknobs(text: str, path: str) -> Imported:
    """Import the rubrics of a dataknobs file: a rubric, a list of them, or a config with `rubrics`."""
    reading = open_json(text, path)
    foreign_rubrics, config = _rubrics_in(reading)
    first, *others = [_import(foreign, config, reading) for foreign in foreign_rubrics]
    if not others:
        return first
    rubrics = [*first.rubrics, *(rubric for other in others for rubric in other.rubrics)]
    ids = [rubric["id"] for rubric in rubrics]
    if len(set(ids)) < len(ids):
        reading.stop((), f"found the rubrics {', '.join(ids[:MOST_LISTED_IDS])}, expected each id once")
    kept_phrases = tuple(
        f"{rubric_id}: {sentence}"
        for rubric_id, imported in zip(ids, (first, *others), strict=True)
        for sentence in imported.kept
    )
    return replace(first, others=tuple(rubrics[1:]), kept=kept_phrases)


def _import(foreign: Row, config: Row, reading: Reading) -> Imported:
    foreign, overlay = _split_own_metadata(_with_schemas(foreign, reading), reading)
    rubric = to_rubric_keys(foreign, reading)
    stored_fields = FieldCounts()
    stored_fields.note(*stored_names(rubric))
    if overlay:
        rubric = apply_rubric_overlay(rubric, overlay, foreign, stored_fields)
    if config:
        rubric["metadata"] = {**rubric.get("metadata", {}), CONFIG: stored_fields.note_all("config.", config)}
    return reading.finish(rubric, stored_fields, is_new=False)


def _rubrics_in(reading: Reading) -> tuple[list[Row], Row]:
    """Mappings of the rubrics, at least one, and the other content of a config file."""
    value = reading.value
    is_config = isinstance(value, dict) and "rubrics" in value and "criteria" not in value
    if isinstance(value, dict) and not is_config:
        return [value], {}
    rubrics, place = (value["rubrics"], ("rubrics",)) if is_config else (value, ())
    if not isinstance(rubrics, list):
        reading.stop(place, f"found {quote_value(rubrics)}, expected a rubric, or a list of rubrics")
    if not rubrics:
        reading.stop(place, "found no rubric, expected at least one")
    for number, rubric in enumerate(rubrics):
        if not isinstance(rubric, dict):
            reading.stop((*place, number), f"found {quote_value(rubric)}, expected a rubric")
    return rubrics, {key: entry for key, entry in value.items() if key != "rubrics"} if is_config else {}


def _with_schemas(foreign: Row, reading: Reading) -> Row:
    """The foreign rubric with each schema that it names (`schema_ref`) read from a file below its folder.

    A name without such a file, an address for example, stays as it is: nothing is fetched.
    """
    criteria = foreign.get("criteria")
    if not isinstance(criteria, list):
        return foreign
    return {
        **foreign,
        "criteria": [_with_schema(criterion, number, reading) for number, criterion in enumerate(criteria)],
    }


def _with_schema(criterion: Any, number: int, reading: Reading) -> Any:
    method = mapping_or_empty(mapping_or_empty(criterion).get("scoring_method"))
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
    # For an impossible name (too long, or with a NUL) os.path returns False, while Path raises.
    return os.path.isfile(os.path.join(folder, name))  # noqa: PTH113, PTH118


def _split_own_metadata(foreign: Row, reading: Reading) -> tuple[Row, Row]:
    """The foreign rubric without `metadata.gradebook`, and the content of that key."""
    metadata = foreign.get("metadata")
    if not isinstance(metadata, dict) or OURS not in metadata:
        return foreign, {}
    overlay = metadata[OURS]
    criteria = overlay.get("criteria", {}) if isinstance(overlay, dict) else None
    if not isinstance(criteria, dict) or not all(isinstance(entry, dict) for entry in criteria.values()):
        reading.stop(("metadata", OURS), "found content that no export wrote, expected a mapping")
    return {**foreign, "metadata": {key: entry for key, entry in metadata.items() if key != OURS}}, overlay


def to_rubric_keys(foreign: Row, reading: Reading) -> Row:
    """Convert to the keys of a rubric file, with all other content under `metadata.dataknobs`. Raises `RubricError`."""
    _note_repeats(foreign, reading)
    shape = replace(reading, value=foreign).fit_whole(ForeignRubric)
    omitted = omitted_defaults(foreign)
    ids = DistinctIds()
    criteria: list[Row] = []
    for theirs, criterion in zip(foreign["criteria"], shape.criteria, strict=True):
        plain = to_plain_criterion(criterion, ids.take(criterion.id))
        notes = notes_of_criterion(theirs, express_criterion(plain, omitted), plain)
        criteria.append({**plain, **as_metadata(THEIRS, notes)})
    rubric = {**to_plain_head(shape), "criteria": criteria}
    notes = notes_of_rubric(foreign, express_rubric(rubric), omitted)
    return rubric | ({"metadata": {**rubric.get("metadata", {}), THEIRS: notes}} if notes else {})


def _note_repeats(foreign: Row, reading: Reading) -> None:
    reading.note_repeats(_ids_in(foreign.get("criteria")), ("criteria",))
    criteria = foreign.get("criteria")
    for number, criterion in enumerate(criteria if isinstance(criteria, list) else ()):
        reading.note_repeats(_ids_in(mapping_or_empty(criterion).get("levels")), ("criteria", number, "levels"))


def _ids_in(entries: Any) -> list[Any]:
    return [mapping_or_empty(entry).get("id") for entry in entries] if isinstance(entries, list) else []


UNSEEN = "not seen by dataknobs, comes back on import"


def write_dataknobs(rubric: Rubric) -> Exported:
    """Write the rubric as dataknobs JSON; lost: content that dataknobs does not read."""
    rubric_keys = rubric_values(rubric)
    plain = _simplify(rubric, rubric_keys)
    foreign = express_rubric(plain, omitted_by(notes_of(rubric_keys)))
    with_notes = apply_notes(foreign, plain, rubric_keys)
    try:
        foreign, back = with_notes, _read_back(with_notes)
    except RubricError:  # its metadata.dataknobs does not come from an import
        back = _read_back(foreign)
    overlay = overlay_of_rubric(rubric_keys, back, foreign)
    if overlay and not isinstance(foreign.get("metadata"), dict):
        foreign["metadata"] = {}  # needed to hold gradebook's own data
        overlay = overlay_of_rubric(rubric_keys, _read_back(foreign), foreign)
    if overlay:
        foreign["metadata"] = {**foreign["metadata"], OURS: overlay}
    unseen = FieldCounts()
    unseen.note(*unseen_names(overlay))
    return Exported(indented_json(foreign), (f"{UNSEEN}: {', '.join(unseen.words())}",) if unseen.words() else ())


def _read_back(foreign: Row) -> Row:
    return to_rubric_keys(foreign, Reading("", foreign))


def _simplify(rubric: Rubric, wanted: Row) -> Row:
    """Reduce the rubric to keys with a place in dataknobs, with effective weights, so that its flat score is equal."""
    weights = effective_weights(rubric)
    has_place = ("id", "version", "name", "description", "target_type", "pass_threshold", "metadata")
    return {
        **{key: wanted[key] for key in has_place if key in wanted},
        "criteria": [_simplify_criterion(criterion, weights[criterion.id]) for criterion in rubric.criteria],
    }


def _simplify_criterion(criterion: Criterion, weight: float) -> Row:
    levels = criterion.scale.levels if criterion.scale else criterion.levels
    method = criterion.method.model_dump(by_alias=True)
    placed = ("type", "check", "function", "schema", "template")
    settings = {key: method[key] for key in placed if method.get(key) is not None}
    plain = {
        "id": criterion.id,
        "name": criterion.name,
        "description": criterion.description,
        "weight": max(weight, 0),  # dataknobs divides by the sum of all weights: it has no penalties
        "required": None if criterion.required else False,
        "levels": [level.model_dump(mode="json", exclude_defaults=True) for level in levels],
        "method": settings if len(settings) > 1 else {"type": "judge"},
    }
    return {key: value for key, value in plain.items() if value not in (None, [])}


SUMMARY = "a rubric with criteria, levels and a scoring method each; lossless both ways"
FORMAT = Format("dataknobs", SUMMARY, ".json", "rubric", read_dataknobs, write_dataknobs)
