"""Rows of foreign rating files: JSON Lines, a JSON list or object, CSV; bad rows with reasons, sizes bounded."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from gradebook.rubrics.importers.json_lines import json_fault, read_json
from gradebook.rubrics.model.errors import Fault, OutputsError, RatingsError, RubricError
from gradebook.rubrics.model.outputs import describe_value
from gradebook.tasks.datasets.decompression import BUFFER_BYTES, open_unpacked, value_fault
from gradebook.tasks.datasets.file_formats import Encoding, RawRow, encoding_of, read_format

MOST_VALUES = 5_000_000  # of such a file
MOST_BYTES = 2**28  # of a JSON file other than JSON Lines, decompressed: it is read whole
_HEAD_BYTES = 2**20
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_SUFFIXES = ".jsonl, .json or .csv, alone or with .gz or .zst"


def read_rating_rows(path: Path) -> tuple[bool, Iterator[RawRow]]:
    """Whether the file is CSV, and its rows. Both raise `RatingsError` if the file as a whole can't be read."""
    encoding = encoding_of(path)
    if encoding is None or encoding.format == "parquet":
        raise _fatal(path, None, f"found the suffix {path.suffix or 'none'}, expected ratings: {_SUFFIXES}")
    if not os.path.isfile(path):  # noqa: PTH113 - Path raises where a name is too long
        raise _fatal(path, None, "found no such file, expected a file of ratings")
    if encoding.format == "csv":
        return True, _own_errors(read_format(path, encoding, _repeated_columns))
    if _is_lines(path, encoding):
        return False, _own_errors(map(_reread, read_format(path, encoding, lambda *_: ())))
    return False, _own_errors(_whole_rows(path, encoding))


def _own_errors(rows: Iterable[RawRow]) -> Iterator[RawRow]:
    """Yield the rows, raising faults of the whole file as `RatingsError`."""
    try:
        yield from rows
    except OutputsError as error:
        raise RatingsError(error.faults) from error


def _fatal(path: Path, line: int | None, message: str) -> RatingsError:
    return RatingsError((Fault(str(path), line, message),))


def _repeated_columns(path: str, line: int | None, columns: Iterable[str]) -> tuple[Fault, ...]:
    twice = sorted(name for name, count in Counter(columns).items() if count > 1)
    return tuple(Fault(path, line, f"found the column {name} twice, expected it once") for name in twice)


def _read(path: Path, encoding: Encoding, byte_count: int) -> bytes:
    """First bytes of a file, decompressed."""
    try:
        with open_unpacked(path, encoding.compression) as stream:
            content = bytearray()
            # In pieces: one read of `byte_count` takes as much memory, whatever the size of the file.
            while part := stream.read(min(BUFFER_BYTES, byte_count - len(content))):
                content += part
            return bytes(content)
    except OutputsError as error:
        raise RatingsError(error.faults) from None
    except OSError as error:
        raise _fatal(path, None, f"found a file that can't be read ({error}), expected ratings") from error


def _is_lines(path: Path, encoding: Encoding) -> bool:
    """Whether the file is JSON Lines: its first line is a whole object."""
    first = _read(path, encoding, _HEAD_BYTES).removeprefix(_BOM).lstrip().partition(b"\n")
    return not first[0] or (first[0].startswith(b"{") and (not first[1] or first[0].rstrip().endswith(b"}")))


def _reread(raw: RawRow) -> RawRow:
    """Parse a row again strictly: a repeated key or an oversized number makes it a bad row."""
    if isinstance(raw.content, str) or raw.text is None:
        return raw
    text = raw.text.decode() if isinstance(raw.text, bytes) else raw.text
    return _parsed(raw.source, raw.line, text)


def _parsed(source: str, line: int, text: str) -> RawRow:
    try:
        content = read_json(text, source, line)
    except RubricError as error:
        return RawRow(source, line, "jsonl", "; ".join(fault.message for fault in error.faults[:3]), text)
    if not isinstance(content, dict):
        content = f"found {describe_value(content)}, expected one JSON object"
    return RawRow(source, line, "jsonl", content, text)


def _whole_rows(path: Path, encoding: Encoding) -> Iterator[RawRow]:
    """Entries of a JSON list, or objects that span several lines each."""
    content = _read(path, encoding, MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise _fatal(path, None, f"found more than {MOST_BYTES} bytes in one JSON value, expected JSON Lines")
    if (fault := value_fault(content, MOST_VALUES)) is not None:
        raise _fatal(path, None, f"{fault}, or JSON Lines")
    try:
        text = content.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        message = f"found the byte 0x{content[error.start]:02x} at byte {error.start + 1}, expected UTF-8 text"
        raise _fatal(path, None, message) from error
    line, before = 1, 0
    for begin, end in _entries(path, text):
        line += text.count("\n", before, begin)
        before = begin
        yield _parsed(str(path), line, text[begin:end])


def _entries(path: Path, text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each entry: items of a list, else consecutive values."""
    place = _skip(text, 0)
    is_list = text.startswith("[", place)
    place = _skip(text, place + 1) if is_list else place
    while place < len(text) and not (is_list and text.startswith("]", place)):
        end = _value_end(path, text, place)
        yield place, end
        place = _skip(text, end)
        if is_list and text.startswith(",", place):
            place = _skip(text, place + 1)
        elif is_list and not text.startswith("]", place):
            raise _fatal(path, _line(text, place), "found no comma behind an entry, expected a comma or the list's end")
    if is_list and (place >= len(text) or _skip(text, place + 1) < len(text)):
        found = "the file's end within" if place >= len(text) else "something behind"
        raise _fatal(path, _line(text, place), f"found {found} the list, expected its end and nothing more")


def _value_end(path: Path, text: str, place: int) -> int:
    # Only the end is needed: each entry is parsed strictly later.
    try:
        return json.JSONDecoder(parse_int=str, parse_float=str).raw_decode(text, place)[1]
    except json.JSONDecodeError as error:
        fault, words = json_fault(error)
        raise _fatal(path, _line(text, fault), words) from None
    except RecursionError:
        message = "found a nesting without measure, expected a finite one"
        raise _fatal(path, _line(text, place), message) from None


def _skip(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    return space.end() if space else place


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
