"""All faults of a rubric file's values, each with its place, a message and a rule."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from gradebook.rubrics.model.conditions import CheckCondition
from gradebook.rubrics.model.errors import MOST_FAULTS, ModelFault
from gradebook.rubrics.model.levels import Frozen, Level, Scale
from gradebook.rubrics.model.methods import METHODS, CheckMethod, JudgedExample, Method
from gradebook.rubrics.model.rubric import CaseCriterion, Category, Criterion, Notes, Overall, Rubric, score_range
from gradebook.rubrics.schemas.files import schemas_in
from gradebook.rubrics.text.plain_words import Place, describe, keys_of, place_text, quote_value

NUMBER_KEYS = ("weight", "threshold", "pass_threshold", "weight_sum", "score", "max_tokens", "min", "max")
TOLERANCE = 1e-9  # maximum error of a sum of floats, as in the comparison of scores
RUBRIC_KEYS = (*keys_of(Rubric), "extends")
CRITERION_KEYS = (*keys_of(Criterion), "use")

FoundFault = tuple[Place, str, str]  # place, message and the rule's id

MOST_FAULTS_OF_ROW = 10
MOST_CRITERIA = 10_000

CASE_CRITERIA = TypeAdapter(Annotated[tuple[CaseCriterion, ...], Field(fail_fast=True)])


def validate(values: dict[str, Any], folder: Path | None = None) -> tuple[Rubric | None, list[FoundFault]]:
    """Validate a rubric's values. Returns the rubric or None, and all faults: each part is checked even if others
    fail.

    folder: location of the files that checks' settings may name; None allows none.
    """
    if isinstance(values.get("criteria"), list) and len(values["criteria"]) > MOST_CRITERIA:
        message = f"criteria: found {len(values['criteria']):,} entries, expected at most {MOST_CRITERIA:,}"
        return None, [(("criteria",), message, "wrong-value")]
    repeated = _first(_repeated_ids(values))
    faults = _first(
        _bools_for_numbers(values),
        repeated,
        method_faults(values, folder),
        _no_criteria(values),
        _schemas_faults(values),
    )
    try:
        rubric = Rubric.model_validate(values)
    except ValidationError as error:
        return None, _first(faults, _model_faults(error, values, {place[:-2] for place, _, _ in repeated}))
    return place_files(rubric, folder), _first(faults, _unknown_levels(rubric.criteria), _out_of_reach(rubric))


def _first(*fault_lists: Iterable[FoundFault], most: int = MOST_FAULTS) -> list[FoundFault]:
    return list(islice(chain(*fault_lists), most))


def validate_case_criteria(values: list[Any]) -> tuple[tuple[CaseCriterion, ...], list[FoundFault]]:
    """Validate per-case criteria. Returns (criteria, or none if one is invalid; faults under `criteria`).

    values: as parsed from JSON. They are validated as JSON text, as in every later use. The model's faults are those of
    the first invalid criterion, as a file may have many such rows.
    """
    try:
        criteria = CASE_CRITERIA.validate_json(json.dumps(values))
    except ValidationError as error:
        first_invalid = next((place[0] for fault in error.errors() if (place := fault["loc"])), len(values))
        around = {"criteria": values[: int(first_invalid) + 1]}
        model_faults = _model_faults(error, around, set(), ("criteria",))
        return (), _first(_bools_for_numbers(around), method_faults(around), model_faults, most=MOST_FAULTS_OF_ROW)
    around = {"criteria": values}
    faults = (_bools_for_numbers(around), method_faults(around))
    return criteria, _first(
        *faults, _unknown_levels(criteria), _above_the_best_level(criteria), most=MOST_FAULTS_OF_ROW
    )


def _model_faults(
    error: ValidationError, values: dict[str, Any], reported: set[Place], above: Place = ()
) -> Iterator[FoundFault]:
    """Faults found by the model.

    reported: lists whose repeated ids are already reported by entry. above: place of the model in the values;
    `criteria` means per-case criteria, which cannot use criteria of another rubric.
    """
    criterion_keys = keys_of(CaseCriterion) if above else CRITERION_KEYS
    for fault in error.errors(include_url=False):
        place = _place_in_file((*above, *fault["loc"]))
        place, message = describe(fault, place, _keys_around(place, values, criterion_keys))
        if fault["type"] != "value_error" or place not in reported:
            yield place, message, _rule_of(fault, place)


def _rule_of(fault: Any, place: Place) -> str:
    kind = fault["type"]
    if kind == "value_error":
        cause = fault["ctx"]["error"]
        return cause.rule if isinstance(cause, ModelFault) else "wrong-value"
    if kind == "union_tag_not_found" or (kind == "missing" and fault["loc"][-1] == "method"):
        return "no-method"
    if kind == "missing" and place == ("criteria",):
        return "no-criteria"
    return {"union_tag_invalid": "unknown-method", "missing": "missing-key", "extra_forbidden": "unknown-key"}.get(
        kind, "wrong-value"
    )


def _no_criteria(values: dict[str, Any]) -> Iterator[FoundFault]:
    if values.get("criteria") == []:
        yield ("criteria",), "criteria: found an empty list, expected at least 1 entry", "no-criteria"


def _place_in_file(location: Place) -> Place:
    """Place without the method's type and the condition's kind, which pydantic inserts before their keys."""
    has_kind = len(location) > 3 and location[0] == "criteria" and location[2] in ("method", "applies")
    return (*location[:3], *location[4:]) if has_kind else location


def _keys_around(place: Place, values: dict[str, Any], criterion_keys: tuple[str, ...]) -> tuple[str, ...]:
    """Keys allowed in the mapping around this place."""
    match place[:-1]:
        case ():
            return RUBRIC_KEYS
        case ("criteria", _):
            return criterion_keys
        case ("criteria", int(index), "method"):
            return keys_of(METHODS[values["criteria"][index]["method"]["type"]])
        case around:
            return keys_of(_model_at(around))


def _model_at(place: Place) -> type[Frozen]:
    """Model of a mapping within a rubric, other than criteria and their methods."""
    in_lists: dict[str | int, type[Frozen]] = {"levels": Level, "examples": JudgedExample, "categories": Category}
    by_key: dict[str | int, type[Frozen]] = {"scale": Scale, "applies": CheckCondition, "overall": Overall}
    return in_lists[place[-2]] if len(place) > 1 and place[-2] in in_lists else by_key.get(place[-1], Notes)


def _bools_for_numbers(values: dict[str, Any]) -> Iterator[FoundFault]:
    """Find bools in number fields, such as `weight: yes`, which pydantic would read as 1."""
    for place, mapping in _mappings(values):
        for key in NUMBER_KEYS:
            if isinstance(mapping.get(key), bool):
                yield (*place, key), _number_message((*place, key), mapping[key]), "wrong-value"


def _number_message(place: Place, value: Any) -> str:
    return f"{place_text(place)}: found {quote_value(value)}, expected a number"


def _mappings(values: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The rubric, its categories, criteria, their methods, levels and scales, if they are mappings."""
    yield (), values
    yield from _steps_of(values.get("overall"), ("overall",))
    for index, category in _entries(values.get("categories")):
        yield ("categories", index), category
    for index, criterion in _entries(values.get("criteria")):
        place = ("criteria", index)
        yield place, criterion
        if isinstance(criterion.get("method"), dict):
            yield (*place, "method"), criterion["method"]
        yield from _steps_of(criterion, place)


def _steps_of(holder: Any, place: Place) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Levels and scale of a criterion or of the overall row."""
    if not isinstance(holder, dict):
        return
    for number, level in _entries(holder.get("levels")):
        yield (*place, "levels", number), level
    if isinstance(holder.get("scale"), dict):
        yield (*place, "scale"), holder["scale"]


def _entries(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Mappings of a list, each with its index; empty for anything else."""
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict):
            yield index, entry


def _repeated_ids(values: dict[str, Any]) -> Iterator[FoundFault]:
    """Find repeated ids within each list."""
    yield from _repeats_in(values.get("categories"), ("categories",))
    yield from _repeats_in(values.get("criteria"), ("criteria",))
    for index, criterion in _entries(values.get("criteria")):
        yield from _repeats_in(criterion.get("levels"), ("criteria", index, "levels"))


def _repeats_in(entries: Any, place: Place) -> Iterator[FoundFault]:
    seen: set[str] = set()
    for index, entry in _entries(entries):
        entry_id = entry.get("id")
        if isinstance(entry_id, bool) or not isinstance(entry_id, (str, int)):
            continue
        id_place = (*place, index, "id")
        if str(entry_id) in seen:
            yield id_place, f"{place_text(id_place)}: found {entry_id!r} again, expected each id once", "repeated-id"
        seen.add(str(entry_id))


def place_files(rubric: Rubric, folder: Path | None, prefix: str = "") -> Rubric:
    """Rubric whose checks read the files that their settings name below the folder.

    prefix: put before these names, if a rubric in a higher folder extends this one.
    """
    if folder is None or not any(_named_files(criterion.method) for criterion in rubric.criteria):
        return rubric
    criteria = tuple(_placed(criterion, folder, prefix) for criterion in rubric.criteria)
    return rubric.model_copy(update={"criteria": criteria})


def _placed(criterion: Criterion, folder: Path, prefix: str) -> Criterion:
    names, method = _named_files(criterion.method), criterion.method
    if not names or not isinstance(method, CheckMethod):
        return criterion
    moved = {key: prefix + value if key in names else value for key, value in method.settings.items()}
    return criterion.model_copy(update={"method": method.placed(folder, moved)})


def unreadable_files(criteria: Sequence[Criterion]) -> list[tuple[str, str]]:
    """Criterion and setting of each file that a rubric names if the rubric is no file itself, such as one in a lake."""
    return [
        (criterion.id, name)
        for criterion in criteria
        if isinstance(criterion.method, CheckMethod) and criterion.method.folder is None
        for name in _named_files(criterion.method)
    ]


def _named_files(method: Method) -> list[str]:
    """Settings of a method that name a file."""
    from gradebook.rubrics.check_kit.check import file_settings
    from gradebook.rubrics.checks.registry import find_check  # here: a check imports pyarrow's compute module

    if not isinstance(method, CheckMethod) or not any(isinstance(value, str) for value in method.settings.values()):
        return []
    try:
        names = file_settings(find_check(method.check))
    except KeyError:  # reported by `_check_faults`
        return []
    return [name for name in names if isinstance(method.settings.get(name), str)]


def method_faults(values: dict[str, Any], folder: Path | None = None) -> Iterator[FoundFault]:
    """Faults of checks' names and settings and of schemas, which the model does not check."""
    schemas = schemas_in(values)
    for place, mapping in _mappings(values):
        match place, mapping.get("applies"):
            case ("criteria", _), {"check": str(name), "settings": dict(settings)}:
                yield from _check_faults(name, settings, (*place, "applies"), None, has_field=True)
            case ("criteria", _), {"check": str(name)}:
                yield from _check_faults(name, {}, (*place, "applies"), None, has_field=True)
        if place[-1:] != ("method",):
            continue
        match mapping.get("type"), mapping.get("check"), mapping.get("settings", {}), mapping.get("schema"):
            case "check", str(name), dict(settings), _:
                yield from _check_faults(name, settings, place, folder, has_field=mapping.get("field") is not None)
                if mapping.get("mode") == "loose" and isinstance(settings.get("levels"), dict):
                    message = "found loose with levels, expected strict: a check that grades has no loose mode"
                    yield (*place, "mode"), f"{place_text((*place, 'mode'))}: {message}", "check-settings"
            case "schema", _, _, dict(schema):
                yield from _schema_faults(schema, schemas, (*place, "schema"))


def _check_faults(
    name: str, settings: dict[str, Any], place: Place, folder: Path | None, *, has_field: bool
) -> Iterator[FoundFault]:
    from gradebook.rubrics.check_kit.check import read_settings
    from gradebook.rubrics.checks.registry import find_check  # here: a check imports pyarrow's compute module

    try:
        check = find_check(name)
        read_settings(check, settings, folder)
        if has_field and "output" not in check.columns:
            message = f"found one with {name}, expected none: the check does not read the output"
            yield (*place, "field"), f"{place_text((*place, 'field'))}: {message}", "check-settings"
    except KeyError as error:
        yield (*place, "check"), f"{place_text((*place, 'check'))}: {error.args[0]}", "unknown-check"
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            yield *describe(fault, (*place, "settings", *fault["loc"]), keys_of(check.settings_model)), "check-settings"


def _schemas_faults(values: dict[str, Any]) -> Iterator[FoundFault]:
    """Faults of the rubric's named schemas."""
    schemas = schemas_in(values)
    for name, schema in schemas.items():
        yield from _schema_faults(schema, schemas, ("schemas", name))


def _schema_faults(schema: dict[str, Any], schemas: dict[str, Any], place: Place) -> Iterator[FoundFault]:
    from gradebook.rubrics.schemas.validating import check_schema  # here: slow to import, and few rubrics need it

    fault = check_schema(schema, schemas)
    if fault is not None:
        yield place, f"{place_text(place)}: {fault}", "unsafe-schema"


def _unknown_levels(criteria: Sequence[Criterion]) -> Iterator[FoundFault]:
    """Levels in a check's settings that its criterion does not have."""
    for index, criterion in enumerate(criteria):
        if not isinstance(criterion.method, CheckMethod) or not isinstance(
            criterion.method.settings.get("levels"), dict
        ):
            continue
        level_ids = [level.id for level in criterion.ranked_levels]
        for level_id in criterion.method.settings["levels"]:
            if level_id not in level_ids:
                place = ("criteria", index, "method", "settings", "levels")
                message = f"found the level {quote_value(level_id)}, expected one of {', '.join(level_ids)}"
                yield place, f"{place_text(place)}: {message}", "check-settings"


def _out_of_reach(rubric: Rubric) -> Iterator[FoundFault]:
    """Thresholds that cannot be reached, or that are required and missing."""
    yield from _above_the_best_level(rubric.criteria)
    weighted = [criterion for criterion in rubric.criteria if not criterion.gate]
    scores = score_range(rubric)
    if rubric.pass_threshold is not None and scores and rubric.pass_threshold > scores[1] + TOLERANCE:
        message = f"found {rubric.pass_threshold:.12g}, expected at most {scores[1]:.12g}, the highest possible score"
        yield ("pass_threshold",), f"pass_threshold: {message}", "unreachable-threshold"
    if rubric.pass_threshold is not None and not weighted:
        message = f"found {rubric.pass_threshold:g} over gates alone, expected a criterion with a weight"
        yield ("pass_threshold",), f"pass_threshold: {message}", "unreachable-threshold"
    if rubric.require_thresholds and all(criterion.threshold is None for criterion in weighted):
        message = "found true and no criterion with a threshold, expected at least one"
        yield ("require_thresholds",), f"require_thresholds: {message}", "unreachable-threshold"


def _above_the_best_level(criteria: Sequence[Criterion]) -> Iterator[FoundFault]:
    for index, criterion in enumerate(criteria):
        best = criterion.ranked_levels[-1].score
        if criterion.threshold is not None and criterion.threshold > best:
            message = f"found {criterion.threshold:g}, expected at most {best:g}, the score of the best level"
            place = ("criteria", index, "threshold")
            yield place, f"{place_text(place)}: {message}", "unreachable-threshold"
