"""Foreign files: strict JSON, JSON Lines and YAML; validation with all faults and their lines; writing.

`Reading` collects the faults of a file and validates the resulting rubric.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePath
from typing import Any, NoReturn, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from gradebook.rubrics.importers.metadata import FieldCounts, drop_empty
from gradebook.rubrics.importers.registry import Imported
from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, FaultList, RubricError
from gradebook.rubrics.model.json_values import HALF_PAIR, Row
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import Place, describe, place_text, quote_value
from gradebook.rubrics.text.yaml_lines import DEEPEST, YamlText, read_yaml

_YAML_TYPES = quote_value(True).removeprefix("true")  # text on bools from plain_words, which is true only for YAML

MOST_ENTRIES = 50_000  # entries in all lists of one rubric or row: pydantic takes a kilobyte for each wrong one

AnyShape = TypeVar("AnyShape", bound=BaseModel)


class OpenMapping(BaseModel):
    """Mapping of a foreign file: known keys are typed, all others are stored."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    @property
    def unknown_keys(self) -> Row:
        """Unknown keys with a value."""
        return self.unknown_keys_with()

    def unknown_keys_with(self, *unplaced: str) -> Row:
        """Unknown keys, and the named fields, as far as they have a value."""
        return drop_empty({**{name: getattr(self, name) for name in unplaced}, **(self.model_extra or {})})


@dataclass(frozen=True, slots=True)
class Reading:
    """Value of a foreign file, its place, and all faults of the file found so far.

    line_of: line of a place in the file, if known.
    """

    path: str
    value: Any
    around: Place = ()
    line_of: Callable[[Place], int | None] = lambda place: None
    is_yaml: bool = False
    faults: list[Fault] = field(default_factory=list)

    def within(self, place: Place, value: Any) -> Self:
        """Part of the value, with the same list of faults."""
        # Faster than `dataclasses.replace`: a list may have half a million entries.
        return type(self)(self.path, value, (*self.around, *place), self.line_of, self.is_yaml, self.faults)

    def note(self, place: Place, message: str) -> None:
        """Record a fault: "found .., expected .."."""
        where = (*self.around, *place)
        self._note_words(where, with_place(where, message))

    def note_repeats(self, names: Iterable[Any], place: Place, key: str = "id") -> None:
        """Record each repeated name in the list. key: name of the field in the list's entries."""
        seen: set[str] = set()
        for index, name in enumerate(names):
            if isinstance(name, str):
                if name in seen:
                    self.note((*place, index, key), f"found {name!r} again, expected each {key} once")
                seen.add(name)

    def fit(self, shape: type[AnyShape], value: Any, place: Place = ()) -> AnyShape | None:
        """Validate the value; None if it is invalid, with a fault for each reason."""
        if _is_too_large(value):
            self.note(place, f"found lists of more than {MOST_ENTRIES:,} entries in all, expected fewer")
            return None
        try:
            return shape.model_validate(value)
        except ValidationError as error:
            for where, message in _describe_all(error, (*self.around, *place)):
                self._note_words(where, message)
            return None

    def fit_whole(self, shape: type[AnyShape]) -> AnyShape:
        """Validate the whole value. Raises `RubricError` with every fault found so far."""
        fitting = self.fit(shape, self.value)
        self.stop_at_faults()
        if fitting is None:
            self.stop((), "found another shape")  # unreachable: an invalid value has a fault
        return fitting

    def stop_at_faults(self) -> None:
        """Raise `RubricError` with every fault found so far, in line order; return if there is none."""
        if self.faults:
            raise RubricError(tuple(sorted(dict.fromkeys(self.faults), key=lambda fault: fault.line or 0)))

    def stop(self, place: Place, message: str) -> NoReturn:
        """Raise `RubricError` with this fault and all previous ones."""
        self.note(place, message)
        raise RubricError(tuple(self.faults))

    def finish(self, rubric: Row, stored_fields: FieldCounts, *, is_new: bool = True) -> Imported:
        """Finish the import of a rubric.

        is_new: set `decide: interval`; False: keep its `decide`, as it may be exported again. Raises `RubricError` also
        if only the whole is invalid, such as with all weights 0.
        """
        self.stop_at_faults()
        if is_new:
            position = next(
                (place for place, key in enumerate(rubric) if key in ("categories", "criteria")), len(rubric)
            )
            fields = [*rubric.items()]
            rubric = dict([*fields[:position], ("decide", "interval"), *fields[position:]])
        if _is_too_deep(rubric):
            self.stop((), f"found more than {DEEPEST} levels of nesting in the rubric file, expected fewer")
        try:
            Rubric.model_validate(rubric)
        except ValidationError as error:
            for _, message in _describe_all(error, ()):
                self.faults.append(Fault(self.path, None, f"in the rubric made of it: {self._words(message)}"))
        self.stop_at_faults()
        return Imported(rubric=rubric, kept=stored_fields.words())

    def _note_words(self, where: Place, message: str) -> None:
        self.faults.append(Fault(self.path, self.line_of(where), self._words(message)))
        if len(self.faults) >= MOST_FAULTS:
            self.stop_at_faults()

    def _words(self, message: str) -> str:
        return printable(message if self.is_yaml else message.replace(_YAML_TYPES, ""))


def open_json(text: str, path: str, *, is_nan_null: bool = False) -> Reading:
    """Open a JSON file. is_nan_null: see `read_json`. Raises `RubricError`."""
    return Reading(path, read_json(text, path, is_nan_null=is_nan_null))


def open_yaml(text: str, path: str) -> Reading:
    """Open a YAML mapping; its syntax faults are reported with later faults. Raises `RubricError` for anything else."""
    loaded = read_yaml(text, path)
    if loaded.values is None:
        raise RubricError(loaded.faults)
    return Reading(path, loaded.values, line_of=loaded.line_of, is_yaml=True, faults=[*loaded.faults])


def open_rows(text: str, path: str) -> list[Reading]:
    """Rows of a JSON Lines file, a JSON list, or a single JSON object; NaN is null there. Raises `RubricError`."""
    start = text.removeprefix("\ufeff").lstrip()
    is_lines = start.startswith("{") and start.partition("\n")[0].rstrip().endswith("}")
    if is_lines:
        faults: list[Fault] = []
        return [
            Reading(path, row, line_of=lambda place, line=line: line, faults=faults)  # type: ignore[misc]
            for line, row in read_json_lines(text, path, is_nan_null=True)
        ]
    reading = open_json(text, path, is_nan_null=True)
    return each_row(reading) if isinstance(reading.value, list) else [reading]


def each_row(reading: Reading) -> list[Reading]:
    """Entries of a list of rows. Raises `RubricError` if there are none."""
    if not reading.value:
        reading.stop((), "found no rows, expected at least one")
    return [reading.within((index,), row) for index, row in enumerate(reading.value)]


def _describe_all(error: ValidationError, around: Place) -> Iterable[tuple[Place, str]]:
    for fault in error.errors(include_url=False):
        if fault["type"] == "too_short" and len(fault["input"]) >= fault["ctx"]["min_length"]:
            continue  # pydantic counts only valid entries; invalid ones are reported already
        yield describe(fault, (*around, *fault["loc"]), ())


def _is_too_large(value: Any) -> bool:
    count, waiting = 0, [value]
    while waiting and count <= MOST_ENTRIES:  # no recursion, at any depth
        entry = waiting.pop()
        if isinstance(entry, list):
            count += len(entry)
            waiting += entry
        elif isinstance(entry, dict):
            waiting += entry.values()
    return count > MOST_ENTRIES


def _is_too_deep(rubric: Row) -> bool:
    layer: list[Any] = [rubric]
    depth = 0
    while layer and depth <= DEEPEST:
        entries = [entry for mapping in layer for entry in (mapping.values() if isinstance(mapping, dict) else mapping)]
        layer, depth = [entry for entry in entries if isinstance(entry, dict | list)], depth + 1
    return depth > DEEPEST


_START_OF_DOCUMENT = re.compile(r"\A((?:[ \t]*+(?:#[^\n]*+)?\n)*+)---[ \t]*(?=\n|#)")
_OPENS_WITH_BRACKET = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?\n)*+[ \t]*\[")
_LINE_IN_A_MESSAGE = re.compile(r"(?<=\(first in line )[0-9]+")


def open_list_or_mapping(text: str, path: str) -> Reading:
    """Parse a list or a mapping. Raises `RubricError` with every fault."""
    text = text.removeprefix("\ufeff")
    suffix = PurePath(path).suffix.lower()
    if suffix == ".json" or (suffix not in (".yaml", ".yml") and text.lstrip()[:1] in ("[", "{")):
        return open_json(text, path)
    loaded = read_yaml(text, path)
    reading = _open_list(text, path, loaded) if loaded.values is None else open_yaml(text, path)
    reading.stop_at_faults()
    return reading


def _open_list(text: str, path: str, as_mapping: YamlText) -> Reading:
    """Parse a list at the top as the value of a key in a line above it: `read_yaml` only accepts mappings."""
    text = _START_OF_DOCUMENT.sub(r"\1", text)
    if _OPENS_WITH_BRACKET.match(text):
        text = " " + text.replace("\n", "\n ")  # YAML requires brackets to be indented further than their key
    loaded = read_yaml(f"list:\n{text}", path)
    if loaded.values is None or not isinstance(loaded.values.get("list"), list):
        raise RubricError(as_mapping.faults)

    def line_of(place: Place) -> int | None:
        line = loaded.line_of(("list", *place))
        return None if line is None else max(line - 1, 1)

    faults = [_shift_line_up(fault) for fault in loaded.faults]
    return Reading(path, loaded.values["list"], line_of=line_of, is_yaml=True, faults=faults)


def _shift_line_up(fault: Fault) -> Fault:
    message = _LINE_IN_A_MESSAGE.sub(lambda line: str(int(line[0]) - 1), fault.message)
    return Fault(fault.path, None if fault.line is None else fault.line - 1, message)


MOST_DIGITS = 300  # digits of an integer that fits a float
DEEPEST_JSON = 100  # levels: forty nested tasks of a tree, and the content of the innermost task
PARTS_SHOWN = 4  # parts shown of a place that is too deep
LINES_SHOWN = 12  # lines with superfluous commas that a message names
_STRANGE_BREAK = re.compile("[\x85\u2028\u2029\ufeff]")
_LAST_COMMA = re.compile(r",\s*([\]}])")
_TEXT_OR_LAST_COMMA = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|,(?=\s*[\]}])', re.DOTALL)


def read_json(text: str, path: str, line: int | None = None, *, is_nan_null: bool = False) -> Any:
    """Parse a JSON text, a whole file or one line of it. Raises `RubricError` with every fault.

    is_nan_null: read NaN and infinite numbers, which Python writes and JSON lacks, as null.
    Nothing is corrected by guessing: a superfluous comma, a repeated key, an invalid number, half a character and
    endless nesting are faults.
    """
    try:
        value = _decode(text.removeprefix("\ufeff"), _LENIENT if is_nan_null else _DECODER)
    except json.JSONDecodeError as error:
        position, message = json_fault(error)
        raise RubricError((Fault(path, line or error.doc.count("\n", 0, position) + 1, message),)) from None
    except ValueError as error:
        raise RubricError((Fault(path, line, printable(str(error))),)) from None
    strange = islice(unsupported_values(value), MOST_FAULTS)
    faults = tuple(Fault(path, line, with_place(place, message)) for place, message in strange)
    if faults:
        raise RubricError(faults)
    return value


def read_json_lines(text: str, path: str, *, is_nan_null: bool = False) -> list[tuple[int, dict[str, Any]]]:
    """Parse the objects of a JSON Lines file, each with its line. Raises `RubricError` with every bad line.

    is_nan_null: see `read_json`.
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    faults = FaultList(RubricError)
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = read_json(line, path, number, is_nan_null=is_nan_null)
        except RubricError as error:
            faults.add(error.faults)
            continue
        if isinstance(row, dict):
            rows.append((number, row))
        else:
            faults.add([Fault(path, number, f"found {type(row).__name__}, expected an object")])
    faults.raise_any()
    if not rows:
        raise RubricError((Fault(path, None, "found an empty file, expected at least one row"),))
    return rows


def unsupported_values(value: Any) -> Iterator[tuple[Place, str]]:
    """Values that are valid in JSON but not in a rubric or row, by place: half characters, infinite numbers, depth."""
    waiting: list[tuple[Place, Any]] = [((), value)]
    while waiting:  # no recursion, at any depth
        place, entry = waiting.pop()
        if isinstance(entry, (dict, list)) and len(place) >= DEEPEST_JSON:
            yield place[:PARTS_SHOWN], f"found more than {DEEPEST_JSON} levels of nesting, expected fewer"
        elif isinstance(entry, dict):
            waiting += [((*place, str(key)), entry) for key, entry in reversed(entry.items())]
            if any(HALF_PAIR.search(str(key)) for key in entry):
                yield place, "found half of a surrogate pair in a key, expected whole characters"
        elif isinstance(entry, list):
            waiting += [((*place, index), entry) for index, entry in reversed([*enumerate(entry)])]
        elif isinstance(entry, str) and HALF_PAIR.search(entry):
            yield place, "found half of a surrogate pair, expected whole characters"
        elif isinstance(entry, float) and not math.isfinite(entry):
            yield place, "found an infinite number, expected a finite one"


def with_place(place: Place, message: str) -> str:
    """Message of a fault, after its place."""
    where = place_text(place)
    return printable(f"{where}: {message}" if where else message)


def printable(text: str) -> str:
    """Text of a file that may contain half of a surrogate pair, made encodable."""
    return text.encode("utf-8", "backslashreplace").decode()


def indented_json(value: Any) -> str:
    """Readable JSON text, with a line break at its end."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def plain_yaml(values: Any) -> str:
    """Readable YAML text."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """YAML dumper without aliases, which PyYAML would write for two criteria with the same scale."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _quoted_where_needed(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Quote texts with line breaks that PyYAML would fold into a space."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _STRANGE_BREAK.search(text) else None)


_Dumper.add_representer(str, _quoted_where_needed)


def json_lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _decode(text: str, decoder: json.JSONDecoder) -> Any:
    if not text.strip():
        raise ValueError("found an empty file, expected JSON")
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("found a nesting without measure, expected a finite one") from None


def json_fault(error: json.JSONDecodeError) -> tuple[int, str]:
    """Place and message of a JSON fault. Superfluous commas are reported in one message, at the first comma."""
    before = error.doc[: error.pos].rstrip()
    is_at_comma = "trailing comma" in error.msg.lower()  # position in Python 3.13; 3.12 reports the bracket
    last = _LAST_COMMA.match(error.doc, error.pos if is_at_comma else max(len(before) - 1, 0))
    if last:
        return last.start(), f"found {_last_commas(error.doc, last)}"
    return error.pos, f"expected JSON: {error.msg}"


def _last_commas(text: str, first: re.Match[str]) -> str:
    """Advice to remove a superfluous comma, or all superfluous commas, with their lines."""
    positions = [match.start() for match in _TEXT_OR_LAST_COMMA.finditer(text) if match[0] == ","]
    if len(positions) < 2:
        return f"a comma before {first[1]!r}, expected none after the last entry: remove it"
    lines, line, start = [], 1, 0
    for position in positions:
        line, start = line + text.count("\n", start, position), position
        lines.append(line)
    distinct_lines = [*dict.fromkeys(lines)]
    line_list = ", ".join(map(str, distinct_lines[:LINES_SHOWN])) + (
        ", ..." if len(distinct_lines) > LINES_SHOWN else ""
    )
    where = f" (lines {line_list})" if len(distinct_lines) > 1 else ""
    return f"{len(positions):,} commas before ']' or '}}', expected none after a last entry: remove them{where}"


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a repeated key: choosing one would be a guess."""
    keyed = dict(pairs)
    if len(keyed) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"found the key {twice[:40]!r} twice in one object, expected each key once")
    return keyed


def _parse_integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"found a whole number of {len(digits)} digits, expected at most {MOST_DIGITS}")
    return int(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"found {name}, expected a number that JSON has")


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_parse_integer, object_pairs_hook=_refuse_repeated_keys
)
_LENIENT = json.JSONDecoder(
    parse_constant=lambda name: None, parse_int=_parse_integer, object_pairs_hook=_refuse_repeated_keys
)
