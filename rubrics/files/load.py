"""Rubric files: parsed with all their faults at once, and the shipped ones found by name."""

import os
from dataclasses import dataclass, field
from importlib import resources
from itertools import chain, islice
from pathlib import Path, PurePosixPath

from gradebook.rubrics.files.inheritance import compose
from gradebook.rubrics.files.validate import place_files, validate
from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, ModelFault, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.schemas.files import write_out_schemas
from gradebook.rubrics.text.named_files import NoFile, UnreadableFile, is_path, read_below, read_whole
from gradebook.rubrics.text.plain_words import Place, unknown_word
from gradebook.rubrics.text.yaml_lines import YamlText, read_yaml

NO_RUBRIC = "none"  # rows are scored by their per-case criteria only
DEEPEST_EXTENSION = 10
MOST_BYTES = 10_000_000  # of a rubric
TAKEN_LISTS = ("criteria", "categories", "schemas")  # lists that a file may inherit from another rubric


@dataclass(frozen=True, slots=True)
class _Reading:
    """Parse of a file and of the files it extends.

    above: files on the path to this one. known: rubrics already parsed, or their faults, by identity: many may extend
    the same one.
    """

    above: tuple[str, ...] = ()
    known: dict[str, Rubric | tuple[Fault, ...]] = field(default_factory=dict)

    def below(self, identity: str) -> "_Reading":
        return _Reading((*self.above, identity), self.known)


def read_rubric(name_or_path: str | Path) -> Rubric:
    """Rubric of a file, or the shipped one of that name. Raises `RubricError` with every fault of the file.

    `none` is the rubric without criteria.
    """
    if str(name_or_path) == NO_RUBRIC:
        return Rubric(id=NO_RUBRIC, version="1.0.0", name="No rubric", criteria=())
    path = Path(name_or_path)
    content = _read_file(path) if isinstance(name_or_path, Path) or is_path(name_or_path) else None
    if content is not None:
        return _parse_once(os.path.realpath(path), content, str(path), path.parent, _Reading())
    if str(name_or_path) in shipped_rubrics():
        return _parse_shipped(str(name_or_path), _Reading())
    known = unknown_word(Path(name_or_path).stem, shipped_rubrics())
    message = f"found no such file and no shipped rubric of that name, expected a file or {known}"
    raise RubricError((Fault(str(name_or_path), None, message, "unknown-rubric"),))


def shipped_rubrics() -> tuple[str, ...]:
    """Names of the shipped rubrics, sorted."""
    names = (file.name for file in _definitions().iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def shipped_text(name: str) -> tuple[bytes, str]:
    """Content and path of a shipped rubric. Raises `FileNotFoundError`."""
    return (_definitions() / f"{name}.yaml").read_bytes(), f"rubrics/definitions/{name}.yaml"


def parse_rubric(text: str | bytes, path: str, folder: Path | None = None) -> Rubric:
    """Parse a rubric from YAML text. Raises `RubricError` with all faults, each with its line.

    path: name of the file, for messages. folder: location of the files that it may extend and of its schemas; None
    allows only shipped ones.
    """
    return _parse(text, path, folder, _Reading())


def line_of(yaml_text: YamlText, place: Place) -> int | None:
    """Line of a place, or of its nearest ancestor; inherited parts are located where the other rubric is named."""
    is_taken = place[:1] in [(key,) for key in TAKEN_LISTS] and place[:2] not in yaml_text.lines
    return yaml_text.line_of(("extends",) if is_taken and ("extends",) in yaml_text.lines else place)


def _parse(text: str | bytes, path: str, folder: Path | None, reading: _Reading) -> Rubric:
    yaml_text = read_yaml(text, path)
    if yaml_text.values is None:
        raise RubricError(yaml_text.faults)
    values, unread = write_out_schemas(yaml_text.values, folder or _definitions())
    composed = compose(values, lambda name: _extended(name, folder, reading))
    rubric, found = validate(composed.values, folder)
    faults = {
        *yaml_text.faults,
        *(
            Fault(path, line_of(yaml_text, place), words, rule)
            for place, words, rule in islice(chain(unread, composed.found, found), MOST_FAULTS)
        ),
    }
    if faults or rubric is None:
        raise RubricError(tuple(sorted(faults, key=lambda fault: (fault.line or 0, fault.message))[:MOST_FAULTS]))
    return rubric


def _extended(name: str, folder: Path | None, reading: _Reading) -> Rubric:
    """Rubric that another one extends: a file below the folder, or a shipped one. Raises `ModelFault`.

    Faults of that rubric are told by place and rule: their words may repeat the content of a file that is no rubric.
    """
    try:
        rubric = _read_below(name, folder, reading) if folder is not None and is_path(name) else None
        if rubric is None and name in shipped_rubrics():
            rubric = _parse_shipped(name, reading)
    except UnreadableFile as error:
        raise ModelFault("unknown-rubric", str(error)) from None
    except RubricError as error:
        first = error.faults[0]
        place = first.path if first.line is None else f"{first.path}:{first.line}"
        fault = first if first.rule == "unknown-rubric" else f"{place}: {first.rule}"  # the former names files alone
        raise ModelFault(first.rule, f"found a rubric with faults of its own ({fault}), expected one without") from None
    if rubric is None:
        known = unknown_word(name, shipped_rubrics())
        kinds = "a shipped rubric" if folder is None else "a file or a shipped rubric"
        raise ModelFault("unknown-rubric", f"found {name!r}, expected {kinds}: {known}")
    return rubric


def _read_below(name: str, folder: Path, reading: _Reading) -> Rubric | None:
    """Rubric of a file below the folder; None if there is no such file. Raises `UnreadableFile`."""
    try:
        content = read_below(name, folder, MOST_BYTES)
    except NoFile:
        return None
    path, above = folder / name, PurePosixPath(name).parent
    rubric = _parse_once(os.path.realpath(path), content, str(path), path.parent, reading)
    return rubric if above == PurePosixPath() else place_files(rubric, folder, f"{above}/")


def _parse_shipped(name: str, reading: _Reading) -> Rubric:
    return _parse_once(name, *shipped_text(name), None, reading)


def _parse_once(identity: str, content: bytes, path: str, folder: Path | None, reading: _Reading) -> Rubric:
    """Rubric of a file, parsed at most once per identity. Raises `RubricError`."""
    if len(reading.above) > DEEPEST_EXTENSION or identity in reading.above:
        message = f"found {' which extends '.join([*reading.above, identity])}, expected an end"
        raise RubricError((Fault(path, None, message, "unknown-rubric"),))
    if identity not in reading.known:
        try:
            reading.known[identity] = _parse(content, path, folder, reading.below(identity))
        except RubricError as error:
            reading.known[identity] = error.faults
    found = reading.known[identity]
    if isinstance(found, Rubric):
        return found
    raise RubricError(found)


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
