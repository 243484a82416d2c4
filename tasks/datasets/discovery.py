"""Discovery of a dataset: files from a path, folder or glob, their digest and their rows."""

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path

from gradebook.rubrics.importers.guessing import guess_format
from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, OutputsError, RubricError
from gradebook.rubrics.model.outputs import REQUIRED_COLUMNS, column_faults, map_faults
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.file_formats import Encoding, Notes, RawRow, encoding_of, read_format
from gradebook.tasks.datasets.row_parser import split_conversation
from gradebook.tasks.datasets.traces import CHAT
from gradebook.tasks.datasets.traces.formats import files_of_subagents, read_traces

_MOST_GUESSED = 64 * 2**20  # characters of a file that may be one to import
_SUFFIXES = ".jsonl, .ndjson, .csv, .tsv or .parquet, alone or with .gz or .zst, .eval or .traj"
# `.json` must be named explicitly: in a folder it is more often a settings file than outputs.
_FOLDER_SUFFIXES = (
    *(
        f".{form}{compression}"
        for form in ("jsonl", "ndjson", "csv", "tsv", "parquet")
        for compression in ("", ".gz", ".zst")
    ),
    ".eval",
    ".traj",
    ".traj.json",
)


def dataset_folders(files: Iterable[Path]) -> tuple[Path, ...]:
    """Folders of a dataset's files; relative paths in its rows are resolved against them."""
    return tuple(dict.fromkeys(file.parent for file in files))


def dataset_files(outputs: str) -> tuple[Path, ...]:
    """Find the files of a dataset, sorted.

    Raises `OutputsError` if there are none, one has an unknown suffix, or its name is not UTF-8.
    """
    # For an impossible name (too long, or with a NUL) os.path answers False; Path raises.
    is_folder = os.path.isdir(outputs)  # noqa: PTH112
    files = _folder_files(Path(outputs)) if is_folder else _named_files(outputs)
    faults = [fault for file in files if (fault := _name_fault(file))]
    if faults:
        raise OutputsError(tuple(faults[:MOST_FAULTS]))
    return files


def _named_files(outputs: str) -> tuple[Path, ...]:
    """A file, or the files of a glob."""
    matches = [outputs] if os.path.isfile(outputs) else sorted(glob.glob(outputs, recursive=True))  # noqa: PTH113, PTH207  # may be absolute
    files = [file for file in map(Path, matches) if file.is_file()]
    if glob.has_magic(outputs) and matches != [outputs]:
        plain = takewhile(lambda part: not glob.has_magic(part), Path(outputs).parts)
        _refuse_links_out(Path(*plain), files)
    if not files:
        kind = "glob that matches no file" if glob.has_magic(outputs) else "path that is not there"
        raise OutputsError((Fault(outputs, None, f"found a {kind}, expected a file, a folder or a glob of outputs"),))
    return tuple(files)


def _folder_files(folder: Path) -> tuple[Path, ...]:
    """Files of a folder whose suffix marks them as outputs, except hidden ones."""
    try:
        names = sorted(file.name for file in folder.iterdir() if file.is_file())
    except OSError as error:
        raise _unreadable(folder, error) from error
    files = tuple(folder / name for name in names if name.lower().endswith(_FOLDER_SUFFIXES) and name[0] != ".")
    if not files:
        message = f"found a folder without outputs, expected files that end in {_SUFFIXES}"
        hint = f"for folders inside it, give a glob such as '{folder}/**/*.jsonl'"
        if any(_is_left_out(name) for name in names):
            hint = f"for its .json files, which may be settings, give the glob '{folder}/*.json'"
        raise OutputsError((Fault(str(folder), None, f"{message}; {hint}"),))
    _refuse_links_out(folder, files)
    return files


def left_out_note(outputs: str) -> str | None:
    """Sentence about the `.json` files that a folder has besides its outputs; None if there are none."""
    try:
        names = sorted(file.name for file in Path(outputs).iterdir() if file.is_file() and _is_left_out(file.name))
    except (OSError, ValueError):  # no folder, or an impossible name
        return None
    if not names:
        return None
    more = f" and {counted(len(names) - 1, 'other file', 'other files')}" if len(names) > 1 else ""
    return f"{names[0]}{more} not read: a folder's .json files may be settings; name them, or give '{outputs}/*.json*'"


def _is_left_out(name: str) -> bool:
    return name.lower().endswith((".json", ".json.gz", ".json.zst")) and name[0] != "."


def _refuse_links_out(folder: Path, files: Iterable[Path]) -> None:
    """Raise `OutputsError` for links to files outside the folder, which its author may not be allowed to read."""
    root = os.path.realpath(folder)
    real_paths = {file: os.path.realpath(file) for file in files}
    faults = tuple(
        Fault(str(file), None, f"found a link out of the folder to {real_path}, expected a file in it, or its own name")
        for file, real_path in real_paths.items()
        if os.path.commonpath([root, real_path]) != root
    )
    if faults:
        raise OutputsError(faults)


def _unreadable(path: Path, error: OSError) -> OutputsError:
    return OutputsError(
        (Fault(str(path), None, f"found a file or folder that can't be read ({error}), expected outputs"),)
    )


def _name_fault(file: Path) -> Fault | None:
    try:
        str(file).encode()
    except UnicodeEncodeError:  # neither Arrow nor the lake can take such a name
        return Fault(str(file), None, "found a name that is not UTF-8, expected one that is: rename the file")
    return _unknown_suffix(file) if encoding_of(file) is None else None


def _unknown_suffix(file: Path) -> Fault:
    actual = f"found the suffix {file.suffix}" if file.suffix else "found no suffix"
    return Fault(str(file), None, f"{actual}, expected {_SUFFIXES}")


def digest_files(files: Sequence[Path]) -> str:
    """SHA-256 over the SHA-256 of each file in order, 64 hex digits: depends on content, not on names.

    Measured on 514 MB: SHA-256 0.25 s, BLAKE2b 0.36 s; processors have instructions for SHA-256 only.
    """
    digest = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise _unreadable(path, error) from error
    return digest.hexdigest()


def read_rows(
    files: Sequence[Path],
    column_map: Mapping[str, str],
    required: Iterable[str] = REQUIRED_COLUMNS,
    trace_format: str | None = None,
    model: str | None = None,
    notes: Notes | None = None,
) -> Iterator[RawRow]:
    """Read all rows of a dataset in order, including bad ones.

    column_map: gradebook's column -> the file's column. required: columns that must exist; where the output is one,
    rows of conversations are split into prompt and output, and traces of agents become rows. trace_format: of these,
    by default found by each file's first object; chat: every conversation is a run of an agent. model: of rows that
    name none; traces and conversations are named after their file by default. notes: see `load_json`. Raises
    `OutputsError` if a file as a whole can't be read or lacks a column. JSON Lines have no header, so a missing column
    is only known after the last row.
    """
    if faults := map_faults(column_map):
        raise OutputsError(faults)
    is_chat = trace_format == CHAT
    required = [column for column in required if column != "model" or model is None]
    notes = Notes() if notes is None else notes
    encodings = {path: _known_encoding(path) for path in files}
    json_lines = [path for path, encoding in encodings.items() if encoding.format == "jsonl"]
    columns: dict[str, None] = {}  # of the JSON Lines so far, in order of appearance
    has_outputs = "output" in required
    samples: Counter[tuple[str, ...]] = Counter()  # of traces, which bring no number of their own
    subagents = files_of_subagents(encodings) if has_outputs and not is_chat else {}
    for path, encoding in encodings.items():
        if any(path in session_files for session_files in subagents.values()):
            continue  # read with their session
        if has_outputs and not is_chat and encoding.format in ("jsonl", "eval"):
            traces = read_traces(path, encoding, trace_format, model, notes, subagents.get(path, {}), samples)
            if traces is not None:
                yield from traces
                continue
        rows = read_format(path, encoding, partial(column_faults, column_map=column_map, required=required), notes)
        if model is not None:
            rows = _with_model(rows, column_map.get("model", "model"), model)
        if has_outputs:
            rows = (split_conversation(row, column_map, is_run=is_chat) for row in rows)
        yield from _note_columns(rows, columns) if encoding.format == "jsonl" else rows
    if columns and (faults := column_faults(str(json_lines[0]), None, columns, column_map, required)):
        raise OutputsError((*_import_hint(json_lines[0]), *faults))


def _import_hint(path: Path) -> tuple[Fault, ...]:
    """Fault of a file that an import reads, such as the results of another evaluator; none of other files."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            guessed = guess_format(file.read(_MOST_GUESSED), str(path))
    except (OSError, UnicodeDecodeError, RubricError):  # compressed, cut within a document, or of no such format
        return ()
    command = f"gradebook rubric import {path} -o FOLDER"
    return (Fault(str(path), None, f"found {guessed.sign}, as in files of {guessed.name}: {command} reads them"),)


def _known_encoding(path: Path) -> Encoding:
    encoding = encoding_of(path)
    if encoding is None:
        raise OutputsError((_unknown_suffix(path),))
    return encoding


def _with_model(rows: Iterator[RawRow], column: str, model: str) -> Iterator[RawRow]:
    """Rows with a model where they name none."""
    for row in rows:
        if isinstance(row.content, dict) and row.content.get(column) in (None, ""):
            yield row._replace(content={**row.content, column: model})
        else:
            yield row


def _note_columns(rows: Iterator[RawRow], columns: dict[str, None]) -> Iterator[RawRow]:
    for row in rows:
        if isinstance(row.content, dict) and not row.content.keys() <= columns.keys():
            columns.update(dict.fromkeys(row.content))
        yield row
