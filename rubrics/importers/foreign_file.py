"""Foreign files: open shapes, all faults with their places, and validation of the resulting rubric."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gradebook.rubrics.importers.interfaces import Imported
from gradebook.rubrics.importers.json_lines import placed, printable, read_json, read_json_lines
from gradebook.rubrics.importers.metadata import Kept, filled
from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, RubricError
from gradebook.rubrics.model.rows import Row
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import Place, describe, shown
from gradebook.rubrics.text.yaml_lines import DEEPEST, read_yaml

_OF_YAML = shown(True).removeprefix("true")  # the words for a bool in plain_words: only YAML has bare ones

MOST_ENTRIES = 50_000  # of all lists of one rubric or row: pydantic keeps a kilobyte of words for each that is wrong

AnyShape = TypeVar("AnyShape", bound=BaseModel)


class OpenMapping(BaseModel):
    """Mapping of a foreign file: known keys are typed, all others are stored."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    @property
    def left(self) -> Row:
        """Unknown keys with a value."""
        return self.left_with()

    def left_with(self, *unplaced: str) -> Row:
        """Named fields without a place, and unknown keys; those with a value."""
        return filled({**{name: getattr(self, name) for name in unplaced}, **(self.model_extra or {})})


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
        # Not `dataclasses.replace`: a list may have half a million parts.
        return type(self)(self.path, value, (*self.around, *place), self.line_of, self.is_yaml, self.faults)

    def note(self, place: Place, message: str) -> None:
        """Record a fault: "found .., expected .."."""
        where = (*self.around, *place)
        self._note_words(where, placed(where, message))

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
            for where, words in _describe_all(error, (*self.around, *place)):
                self._note_words(where, words)
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

    def finish(self, rubric: Row, kept: Kept) -> Imported:
        """Finish the import of a rubric. Raises `RubricError` also if its parts are valid and it is not, e.g. for
        weights of 0.
        """
        self.stop_at_faults()
        if _is_too_deep(rubric):
            self.stop((), f"found more than {DEEPEST} levels of nesting in the rubric file, expected fewer")
        try:
            Rubric.model_validate(rubric)
        except ValidationError as error:
            for _, words in _describe_all(error, ()):
                self.faults.append(Fault(self.path, None, f"in the rubric made of it: {self._words(words)}"))
        self.stop_at_faults()
        return Imported(rubric=rubric, kept=kept.words())

    def _note_words(self, where: Place, words: str) -> None:
        self.faults.append(Fault(self.path, self.line_of(where), self._words(words)))
        if len(self.faults) >= MOST_FAULTS:
            self.stop_at_faults()

    def _words(self, words: str) -> str:
        return printable(words if self.is_yaml else words.replace(_OF_YAML, ""))


def open_json(text: str, path: str) -> Reading:
    """Open a JSON file. Raises `RubricError`."""
    return Reading(path, read_json(text, path))


def open_yaml(text: str, path: str) -> Reading:
    """Open a YAML mapping; its syntax faults are reported with later ones. Raises `RubricError` for anything else."""
    found = read_yaml(text, path)
    if found.values is None:
        raise RubricError(found.faults)
    return Reading(path, found.values, line_of=found.line_of, is_yaml=True, faults=[*found.faults])


def open_rows(text: str, path: str) -> list[Reading]:
    """Rows of a JSON Lines file, a JSON list, or a single JSON object. Raises `RubricError`."""
    start = text.removeprefix("\ufeff").lstrip()
    is_lines = start.startswith("{") and start.partition("\n")[0].rstrip().endswith("}")
    if is_lines:
        faults: list[Fault] = []
        return [
            Reading(path, row, line_of=lambda place, line=line: line, faults=faults)  # type: ignore[misc]
            for line, row in read_json_lines(text, path)
        ]
    whole = open_json(text, path)
    return each_row(whole) if isinstance(whole.value, list) else [whole]


def each_row(whole: Reading) -> list[Reading]:
    """Entries of a list of rows. Raises `RubricError` if there are none."""
    if not whole.value:
        whole.stop((), "found no rows, expected at least one")
    return [whole.within((index,), row) for index, row in enumerate(whole.value)]


def _describe_all(error: ValidationError, around: Place) -> Iterable[tuple[Place, str]]:
    for fault in error.errors(include_url=False):
        if fault["type"] == "too_short" and len(fault["input"]) >= fault["ctx"]["min_length"]:
            continue  # pydantic counts only valid entries; the others are already reported
        yield describe(fault, (*around, *fault["loc"]), ())


def _is_too_large(value: Any) -> bool:
    count, waiting = 0, [value]
    while waiting and count <= MOST_ENTRIES:  # no recursion, at any depth
        found = waiting.pop()
        if isinstance(found, list):
            count += len(found)
            waiting += found
        elif isinstance(found, dict):
            waiting += found.values()
    return count > MOST_ENTRIES


def _is_too_deep(rubric: Row) -> bool:
    layer: list[Any] = [rubric]
    depth = 0
    while layer and depth <= DEEPEST:
        entries = [entry for mapping in layer for entry in (mapping.values() if isinstance(mapping, dict) else mapping)]
        layer, depth = [entry for entry in entries if isinstance(entry, dict | list)], depth + 1
    return depth > DEEPEST
