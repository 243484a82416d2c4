"""Rubric files: reading one, with every fault of it at once, and finding those that ship."""

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rubrics.errors import Fault, RubricError
from rubrics.model import CheckMethod, Criterion, JudgeMethod, Level, RatingsMethod, Rubric, SchemaMethod
from rubrics.plain_words import Place, describe, keys_of, place_text, shown, unknown_word
from rubrics.yaml_lines import read_yaml

NUMBER_KEYS = ("weight", "threshold", "pass_threshold", "score", "max_tokens")
METHOD_KEYS: dict[str, type[BaseModel]] = {
    "check": CheckMethod,
    "schema": SchemaMethod,
    "judge": JudgeMethod,
    "ratings": RatingsMethod,
}

FoundFault = tuple[Place, str]


def read_rubric(name_or_path: str | Path) -> Rubric:
    """The rubric of a file, or the shipped one of that name. Raises `RubricError` with every fault of the file."""
    content = _read_file(Path(name_or_path))
    if content is not None:
        return parse_rubric(content, str(name_or_path))
    if str(name_or_path) in shipped_rubrics():
        file_name = f"{name_or_path}.yaml"
        return parse_rubric((_definitions() / file_name).read_bytes(), f"rubrics/definitions/{file_name}")
    known = unknown_word(Path(name_or_path).stem, shipped_rubrics())
    message = f"found no such file and no shipped rubric of that name, expected a file or {known}"
    raise RubricError((Fault(str(name_or_path), None, message),))


def shipped_rubrics() -> tuple[str, ...]:
    """The names of the rubrics that ship, sorted."""
    names = (file.name for file in _definitions().iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def parse_rubric(text: str | bytes, path: str) -> Rubric:
    """The rubric that YAML text holds; `path` names the file. Raises `RubricError`: all faults, each with its line."""
    yaml_text = read_yaml(text, path)
    if yaml_text.values is None:
        raise RubricError(yaml_text.faults)
    rubric, found = _validate(yaml_text.values)
    faults = {*yaml_text.faults, *(Fault(path, yaml_text.line_of(place), message) for place, message in found)}
    if faults or rubric is None:
        raise RubricError(tuple(sorted(faults, key=lambda fault: (fault.line or 0, fault.message))))
    return rubric


def _definitions() -> Traversable:
    return resources.files("rubrics") / "definitions"


def _read_file(path: Path) -> bytes | None:
    """What the file holds; None where there is no file."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):  # a NUL in a name is a ValueError
        return None
    except OSError as error:
        message = f"found a file that can't be read ({error.strerror}), expected a readable one"
        raise RubricError((Fault(str(path), None, message),)) from None


def _validate(values: dict[str, Any]) -> tuple[Rubric | None, list[FoundFault]]:
    """The rubric, or None, and what is wrong: each part is looked at even where another is broken."""
    repeated = list(_repeated_ids(values))
    found = [*_truths_for_numbers(values), *repeated, *_method_faults(values)]
    try:
        rubric = Rubric.model_validate(values)
    except ValidationError as error:
        return None, [*found, *_model_faults(error, values, {place[:-2] for place, _ in repeated})]
    return rubric, [*found, *_out_of_reach(rubric)]


def _model_faults(error: ValidationError, values: dict[str, Any], reported: set[Place]) -> Iterator[FoundFault]:
    """What the model found. reported: the lists whose repeated ids are told already, entry by entry."""
    for fault in error.errors(include_url=False):
        place = _place_in_file(fault["loc"])
        if fault["type"] == "too_short" and len(fault["input"]) >= fault["ctx"]["min_length"]:
            continue  # pydantic counts the entries that are valid; the others are told already
        place, message = describe(fault, place, _keys_around(place, values))
        if fault["type"] != "value_error" or place not in reported:
            yield place, message


def _place_in_file(location: Place) -> Place:
    """Without the method's type, which pydantic puts between `method` and its keys."""
    is_inside_method = len(location) > 3 and location[0] == "criteria" and location[2] == "method"
    return (*location[:3], *location[4:]) if is_inside_method else location


def _keys_around(place: Place, values: dict[str, Any]) -> tuple[str, ...]:
    """The keys that the mapping which holds this place may have."""
    match place:
        case (_,):
            return keys_of(Rubric)
        case ("criteria", _, _):
            return keys_of(Criterion)
        case ("criteria", _, "levels", _, _):
            return keys_of(Level)
        case ("criteria", int(index), "method", _):
            return keys_of(METHOD_KEYS[values["criteria"][index]["method"]["type"]])
    return ()


def _truths_for_numbers(values: dict[str, Any]) -> Iterator[FoundFault]:
    """`weight: yes`, which pydantic would take for 1."""
    for place, mapping in _mappings(values):
        for key in NUMBER_KEYS:
            if isinstance(mapping.get(key), bool):
                yield (*place, key), f"{place_text((*place, key))}: found {shown(mapping[key])}, expected a number"


def _mappings(values: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The rubric, its criteria, their methods and their levels, as far as they are mappings."""
    yield (), values
    for index, criterion in _entries(values.get("criteria")):
        place = ("criteria", index)
        yield place, criterion
        if isinstance(criterion.get("method"), dict):
            yield (*place, "method"), criterion["method"]
        for number, level in _entries(criterion.get("levels")):
            yield (*place, "levels", number), level


def _entries(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The mappings of a list, each with its index; nothing where there is no list."""
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict):
            yield index, entry


def _repeated_ids(values: dict[str, Any]) -> Iterator[FoundFault]:
    """Each id that the same list holds before."""
    yield from _repeats_in(values.get("criteria"), ("criteria",))
    for index, criterion in _entries(values.get("criteria")):
        yield from _repeats_in(criterion.get("levels"), ("criteria", index, "levels"))


def _repeats_in(entries: Any, place: Place) -> Iterator[FoundFault]:
    seen: set[str] = set()
    for index, entry in _entries(entries):
        entry_id = entry.get("id")
        if isinstance(entry_id, bool) or not isinstance(entry_id, (str, int)):
            continue
        here = (*place, index, "id")
        if str(entry_id) in seen:
            yield here, f"{place_text(here)}: found {entry_id!r} again, expected each id once"
        seen.add(str(entry_id))


def _method_faults(values: dict[str, Any]) -> Iterator[FoundFault]:
    """What is wrong with the checks' names and settings and with the schemas, which the model does not look into."""
    for place, mapping in _mappings(values):
        if place[-1:] != ("method",):
            continue
        match mapping.get("type"), mapping.get("check"), mapping.get("settings", {}), mapping.get("schema"):
            case "check", str(name), dict(settings), _:
                yield from _check_faults(name, settings, place)
            case "schema", _, _, dict(schema):
                yield from _schema_faults(schema, (*place, "schema"))


def _check_faults(name: str, settings: dict[str, Any], place: Place) -> Iterator[FoundFault]:
    from rubrics import checks  # here: registering them all takes pyarrow's compute module

    try:
        check = checks.find_check(name)
        checks.read_settings(check, settings)
    except KeyError as error:
        yield (*place, "check"), f"{place_text((*place, 'check'))}: {error.args[0]}"
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            yield describe(fault, (*place, "settings", *fault["loc"]), keys_of(check.settings_model))


def _schema_faults(schema: dict[str, Any], place: Place) -> Iterator[FoundFault]:
    from rubrics.json_schema import check_schema

    fault = check_schema(schema)
    if fault is not None:
        yield place, f"{place_text(place)}: {fault}"


def _out_of_reach(rubric: Rubric) -> Iterator[FoundFault]:
    """Thresholds that nothing could ever reach, or that are asked for and not there."""
    for index, criterion in enumerate(rubric.criteria):
        best = criterion.scale[-1].score
        if criterion.threshold is not None and criterion.threshold > best:
            message = f"found {criterion.threshold:g}, expected at most {best:g}, the score of the best level"
            yield ("criteria", index, "threshold"), f"criteria[{index}].threshold: {message}"
    weighted = [criterion for criterion in rubric.criteria if not criterion.gate]
    if rubric.pass_threshold is not None and not weighted:
        message = f"found {rubric.pass_threshold:g} over gates alone, expected a criterion with a weight"
        yield ("pass_threshold",), f"pass_threshold: {message}"
    if rubric.require_thresholds and all(criterion.threshold is None for criterion in weighted):
        message = "found true and no criterion with a threshold, expected at least one"
        yield ("require_thresholds",), f"require_thresholds: {message}"
