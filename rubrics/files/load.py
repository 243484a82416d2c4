"""Rubric files: parsed, with all faults at once; and shipped rubrics, found by name.

Rubrics may be based on others: `extends` names them, and `use` takes over a criterion and overrides some of its keys.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any

from gradebook.rubrics.files.validate import place_files, validate
from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, ModelFault, RubricError
from gradebook.rubrics.model.rubric import Category, Criterion, Rubric
from gradebook.rubrics.schemas.files import write_out_schemas
from gradebook.rubrics.text.named_files import NoFile, UnreadableFile, is_path, read_below, read_whole
from gradebook.rubrics.text.plain_words import Place, place_text, quote_value, unknown_word
from gradebook.rubrics.text.yaml_lines import YamlText, read_yaml

NO_RUBRIC = "none"  # name of the rubric without criteria: rows are scored by their per-case criteria
DEEPEST_EXTENSION = 10
MOST_BYTES = 10_000_000  # size of a rubric file
_RUBRIC_KEYS = re.compile(rb"^(criteria|extends):", re.MULTILINE)
TAKEN_LISTS = ("criteria", "categories", "schemas")  # lists that a file may inherit from another rubric


@dataclass(frozen=True, slots=True)
class _ParseState:
    """Parse of a file and of the files it extends.

    above: files on the path to this file. parsed: rubrics parsed already, or their faults, by identity: several files
    may extend the same rubric.
    """

    above: tuple[str, ...] = ()
    parsed: dict[str, Rubric | tuple[Fault, ...]] = field(default_factory=dict)

    def below(self, identity: str) -> "_ParseState":
        return _ParseState((*self.above, identity), self.parsed)


def read_rubric(name_or_path: str | Path) -> Rubric:
    """Rubric of a file, or the shipped rubric of that name. Raises `RubricError` with every fault of the file.

    `none` is the rubric without criteria.
    """
    if str(name_or_path) == NO_RUBRIC:
        return Rubric(id=NO_RUBRIC, version="1.0.0", name="No rubric", criteria=())
    path = Path(name_or_path)
    content = _read_file(path) if isinstance(name_or_path, Path) or is_path(name_or_path) else None
    if content is not None:
        return _parse_once(os.path.realpath(path), content, str(path), path.parent, _ParseState())
    if str(name_or_path) in shipped_rubrics():
        return _parse_shipped(str(name_or_path), _ParseState())
    suggestion = unknown_word(Path(name_or_path).stem, shipped_rubrics())
    message = f"found no such file and no shipped rubric of that name, expected a file or {suggestion}"
    raise RubricError((Fault(str(name_or_path), None, message, "unknown-rubric"),))


def shipped_rubrics() -> tuple[str, ...]:
    """Names of the shipped rubrics, sorted."""
    names = (file.name for file in _definitions().iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def shipped_text(name: str) -> tuple[bytes, str]:
    """Content and path of a shipped rubric. Raises `FileNotFoundError`."""
    return (_definitions() / f"{name}.yaml").read_bytes(), f"rubrics/definitions/{name}.yaml"


def is_rubric_text(content: bytes) -> bool:
    """Whether a YAML file looks like a rubric: judges and suites are YAML files too."""
    return _RUBRIC_KEYS.search(content) is not None


def parse_rubric(text: str | bytes, path: str, folder: Path | None = None) -> Rubric:
    """Parse a rubric from YAML text. Raises `RubricError` with all faults, each with its line.

    path: name of the file, for messages. folder: location of the files that it may extend and of its schemas; None
    allows only shipped ones.
    """
    return _parse(text, path, folder, _ParseState())


def line_of(yaml_text: YamlText, place: Place) -> int | None:
    """Line of a place, or of its nearest ancestor; inherited parts are located where the other rubric is named."""
    is_taken = place[:1] in [(key,) for key in TAKEN_LISTS] and place[:2] not in yaml_text.lines
    return yaml_text.line_of(("extends",) if is_taken and ("extends",) in yaml_text.lines else place)


def _parse(text: str | bytes, path: str, folder: Path | None, state: _ParseState) -> Rubric:
    yaml_text = read_yaml(text, path)
    if yaml_text.values is None:
        raise RubricError(yaml_text.faults)
    values, unread = write_out_schemas(yaml_text.values, folder or _definitions())
    composed = compose(values, lambda name: _extended(name, folder, state))
    rubric, rubric_faults = validate(composed.values, folder)
    faults = {
        *yaml_text.faults,
        *(
            Fault(path, line_of(yaml_text, place), message, rule)
            for place, message, rule in islice(chain(unread, composed.faults, rubric_faults), MOST_FAULTS)
        ),
    }
    if faults or rubric is None:
        raise RubricError(tuple(sorted(faults, key=lambda fault: (fault.line or 0, fault.message))[:MOST_FAULTS]))
    return rubric


def _extended(name: str, folder: Path | None, state: _ParseState) -> Rubric:
    """Rubric that another rubric extends: a file below the folder, or a shipped rubric. Raises `ModelFault`.

    Faults of that rubric are reported by place and rule: their messages may quote a file that is no rubric.
    """
    try:
        rubric = _read_below(name, folder, state) if folder is not None and is_path(name) else None
        if rubric is None and name in shipped_rubrics():
            rubric = _parse_shipped(name, state)
    except UnreadableFile as error:
        raise ModelFault("unknown-rubric", str(error)) from None
    except RubricError as error:
        first_fault = error.faults[0]
        location = first_fault.path if first_fault.line is None else f"{first_fault.path}:{first_fault.line}"
        fault = (
            first_fault if first_fault.rule == "unknown-rubric" else f"{location}: {first_fault.rule}"
        )  # that fault only names files
        raise ModelFault(
            first_fault.rule, f"found a rubric with faults of its own ({fault}), expected one without"
        ) from None
    if rubric is None:
        suggestion = unknown_word(name, shipped_rubrics())
        kinds = "a shipped rubric" if folder is None else "a file or a shipped rubric"
        raise ModelFault("unknown-rubric", f"found {name!r}, expected {kinds}: {suggestion}")
    return rubric


def _read_below(name: str, folder: Path, state: _ParseState) -> Rubric | None:
    """Rubric of a file below the folder; None if there is no such file. Raises `UnreadableFile`."""
    try:
        content = read_below(name, folder, MOST_BYTES)
    except NoFile:
        return None
    path, above = folder / name, PurePosixPath(name).parent
    rubric = _parse_once(os.path.realpath(path), content, str(path), path.parent, state)
    return rubric if above == PurePosixPath() else place_files(rubric, folder, f"{above}/")


def _parse_shipped(name: str, state: _ParseState) -> Rubric:
    return _parse_once(name, *shipped_text(name), None, state)


def _parse_once(identity: str, content: bytes, path: str, folder: Path | None, state: _ParseState) -> Rubric:
    """Rubric of a file, parsed at most once per identity. Raises `RubricError`."""
    if len(state.above) > DEEPEST_EXTENSION or identity in state.above:
        message = f"found {' which extends '.join([*state.above, identity])}, expected an end"
        raise RubricError((Fault(path, None, message, "unknown-rubric"),))
    if identity not in state.parsed:
        try:
            state.parsed[identity] = _parse(content, path, folder, state.below(identity))
        except RubricError as error:
            state.parsed[identity] = error.faults
    outcome = state.parsed[identity]
    if isinstance(outcome, Rubric):
        return outcome
    raise RubricError(outcome)


def _definitions() -> Path:
    return Path(str(resources.files("gradebook.rubrics"))) / "definitions"


def _read_file(path: Path) -> bytes | None:
    """Content of the file; None if there is no file."""
    try:
        return read_whole(path, MOST_BYTES) if not path.is_dir() else None
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL in a name is a ValueError
        return None
    except OSError as error:
        message = f"found a file that can't be read ({error.strerror}), expected a readable one"
        raise RubricError((Fault(str(path), None, message),)) from None


Values = dict[str, Any]
FindRubric = Callable[[str], Rubric]
MOST_EXTENDED = 20


@dataclass(slots=True)
class Composed:
    """Rubric values with inherited parts written out. faults: (place, message, rule) of each fault."""

    values: Values
    faults: list[tuple[Place, str, str]] = field(default_factory=list)


def compose(values: Values, find_rubric: FindRubric) -> Composed:
    """Write out the criteria that a rubric file takes from the rubrics it extends.

    find_rubric: a name or path -> the rubric; raises `ModelFault` if there is none.
    """
    composed = Composed(dict(values))
    names = composed.values.pop("extends", None)
    if names is None:
        composed.faults += list(_uses_without_extends(values))
        return composed
    bases = _find_bases(names, find_rubric, composed)
    if "criteria" not in values:
        inherited = [_values_of(criterion) for base in bases for criterion in base.criteria]
        composed.values["criteria"] = inherited or ([_placeholder(0)] if composed.faults else [])
    elif isinstance(values["criteria"], list):
        composed.values["criteria"] = [
            _written_out(entry, ("criteria", index), bases, composed) for index, entry in enumerate(values["criteria"])
        ]
    _take_categories(composed, bases)
    _take_schemas(composed, bases)
    if taxonomy := next((base.taxonomy for base in bases if base.taxonomy), None):
        composed.values.setdefault("taxonomy", taxonomy.model_dump(exclude_defaults=True))
    return composed


def _find_bases(names: Any, find_rubric: FindRubric, composed: Composed) -> list[Rubric]:
    bases = []
    listed = names if isinstance(names, list) else [names]
    composed.faults += _list_faults(listed)
    for index, name in enumerate(listed[:MOST_EXTENDED]):
        place: Place = ("extends", index) if isinstance(names, list) else ("extends",)
        if not isinstance(name, str) or not name:
            message = f"{place_text(place)}: found {quote_value(name)}, expected a rubric's name or file"
            composed.faults.append((place, message, "unknown-rubric"))
            continue
        if name in listed[:index]:
            message = f"{place_text(place)}: found {quote_value(name)} again, expected each name once"
            composed.faults.append((place, message, "unknown-rubric"))
            continue
        try:
            bases.append(find_rubric(name))
        except ModelFault as fault:
            composed.faults.append((place, f"{place_text(place)}: {fault}", fault.rule))
    return bases


def _list_faults(names: list[Any]) -> Iterator[tuple[Place, str, str]]:
    if not names:
        yield ("extends",), "extends: found an empty list, expected a rubric's name or file", "unknown-rubric"
    if len(names) > MOST_EXTENDED:
        message = f"extends: found {len(names)} names, expected at most {MOST_EXTENDED}"
        yield ("extends",), message, "unknown-rubric"


def _written_out(entry: Any, place: Place, bases: list[Rubric], composed: Composed) -> Any:
    """The entry itself, or the criterion that it uses, with keys replaced by the entry's; a null key is removed."""
    if not isinstance(entry, dict) or "use" not in entry:
        return entry
    criterion_id = entry["use"]
    overrides = {key: value for key, value in entry.items() if key != "use"}
    owners = [base for base in bases if criterion_id in [criterion.id for criterion in base.criteria]]
    if len(owners) != 1:
        composed.faults.append(
            ((*place, "use"), _use_message((*place, "use"), criterion_id, bases, owners), "unknown-use")
        )
        return _placeholder(place[-1]) | overrides
    used_values = _values_of(owners[0].criterion(criterion_id))
    if {"levels", "scale"} & overrides.keys():
        used_values = {key: value for key, value in used_values.items() if key not in ("levels", "scale")}
    if overrides.get("gate") is True:
        used_values.pop("weight", None)
    return {key: value for key, value in (used_values | overrides).items() if value is not None}


def _placeholder(index: str | int) -> Values:
    """Placeholder for a criterion that cannot be found: its fault is already reported, and the rest is still
    checked.
    """
    return {"id": f"unknown_{index}", "description": "?", "method": {"type": "schema", "schema": {}}}


def _use_message(place: Place, wanted: Any, bases: list[Rubric], owners: list[Rubric]) -> str:
    if owners:
        return f"{place_text(place)}: found {wanted} in {' and '.join(base.id for base in owners)}, expected it in one"
    criterion_ids = [criterion.id for base in bases for criterion in base.criteria]
    if not criterion_ids:
        return f"{place_text(place)}: found {quote_value(wanted)}, expected a rubric that has it under `extends`"
    return f"{place_text(place)}: found {quote_value(wanted)}, expected {unknown_word(str(wanted), criterion_ids)}"


def _uses_without_extends(values: Values) -> Iterator[tuple[Place, str, str]]:
    for index, entry in enumerate(_listed(values, "criteria")):
        if isinstance(entry, dict) and "use" in entry:
            place = ("criteria", index, "use")
            yield place, _use_message(place, entry["use"], [], []), "unknown-use"


def _values_of(criterion: Criterion) -> Values:
    return criterion.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _listed(values: Values, key: str) -> list[Any]:
    """List under the key; empty for anything else, which the model refuses."""
    entries = values.get(key)
    return entries if isinstance(entries, list) else []


def _take_categories(composed: Composed, bases: list[Rubric]) -> None:
    """Add categories named by inherited criteria, with their ancestors, unless the file lists them."""
    if not isinstance(composed.values.get("categories") or [], list):
        return
    listed = _listed(composed.values, "categories")
    criteria = _listed(composed.values, "criteria")
    have = [entry.get("id") for entry in listed if isinstance(entry, dict)]
    names = [entry.get("category") for entry in criteria if isinstance(entry, dict)]
    names += [entry.get("parent") for entry in listed if isinstance(entry, dict)]
    added = _categories_around(names, have, bases)
    composed.faults += _ambiguous_categories(added, bases)
    if added:
        dumped = (category.model_dump(mode="json", by_alias=True, exclude_defaults=True) for category in added.values())
        composed.values["categories"] = [*listed, *dumped]


def _categories_around(names: list[Any], present: list[Any], bases: list[Rubric]) -> dict[str, Category]:
    """Categories of the bases with the wanted names and their ancestors, by id, without categories in the file."""
    categories = {category.id: category for base in reversed(bases) for category in base.categories}
    listed_ids = {name for name in present if isinstance(name, str)}
    added: dict[str, Category] = {}
    for name in names:
        above = name
        while isinstance(above, str) and above in categories and above not in listed_ids and above not in added:
            added[above] = categories[above]
            above = categories[above].parent
    return added


def _take_schemas(composed: Composed, bases: list[Rubric]) -> None:
    """Add the bases' schemas, to which inherited criteria may refer. The file's own take precedence."""
    own_schemas = composed.values.get("schemas", {})
    is_needed = any(_is_schema_criterion(entry) for entry in _listed(composed.values, "criteria"))
    if not is_needed or not isinstance(own_schemas, dict):
        return
    inherited: Values = {}
    for base in bases:
        for name, schema in base.schemas.items():
            if name not in own_schemas and inherited.setdefault(name, schema) != schema:
                message = f"extends: found different schemas {quote_value(name)} in {base.id} and before it"
                composed.faults.append(
                    (("extends",), f"{message}, expected equal ones, or one under schemas", "unsafe-schema")
                )
    if inherited:
        composed.values["schemas"] = inherited | own_schemas


def _is_schema_criterion(entry: Any) -> bool:
    method = entry.get("method") if isinstance(entry, dict) else None
    return isinstance(method, dict) and method.get("type") == "schema"


def _ambiguous_categories(added: dict[str, Category], bases: list[Rubric]) -> Iterator[tuple[Place, str, str]]:
    """Report added categories that another base defines differently."""
    for name, category in added.items():
        owners = [base for base in bases if name in [other.id for other in base.categories]]
        if any(other != category for base in owners for other in base.categories if other.id == name):
            whose = " and ".join(base.id for base in owners)
            message = f"extends: found different categories {quote_value(name)} in {whose}"
            yield ("extends",), f"{message}, expected equal ones, or one under categories", "category-tree"
