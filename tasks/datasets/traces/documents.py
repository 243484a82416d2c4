"""JSON objects of a file: one a line, or in one document."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.rubrics.model.outputs import describe_value
from gradebook.tasks.datasets.decompression import BUFFER_BYTES, open_unpacked
from gradebook.tasks.datasets.file_formats import Encoding, parse_object, read_lines, read_whole
from gradebook.tasks.datasets.json_texts import Notes, load_json

MOST_TRACE_VALUES = 4_000_000  # of a line or a document; a batch of a collector has several thousand spans


class Document(NamedTuple):
    """One object of a file, or the reason why it is none."""

    line: int  # 1-based; in a list its place in it
    content: dict[str, Any] | str
    size: int  # bytes in the file; of a list, the share of each
    source: str | None = None  # its file, if that is not the one that is read


def read_documents(path: Path, encoding: Encoding, notes: Notes) -> Iterator[Document]:
    """Read the objects of a file that holds one a line, one in all, or a list of them. notes: see `load_json`.

    Raises `OutputsError` where one document has more than 64 MB; lines may be any number.
    """
    lines = enumerate(read_lines(path, encoding, MOST_TRACE_VALUES), start=1)
    first = next(((number, line) for number, line in lines if not line.isspace()), None)
    if first is None:
        return iter(())
    if _is_object(first[1]):
        return _read_lines(path, chain([first], lines), notes)
    return _read_whole(path, encoding, notes)


def begins_with(path: Path, encoding: Encoding, marks: Iterable[bytes]) -> bool:
    """Whether one of these is in the first megabyte of a file; not in one that can't be read."""
    try:
        with open_unpacked(path, encoding.compression) as stream:
            begin = stream.read(BUFFER_BYTES)
    except OSError:
        return False
    return any(mark in begin for mark in marks)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(load_json(line, Notes()), dict)
    except json.JSONDecodeError:
        return False


def too_many_values(text: bytes) -> str | None:
    """Fault of a text with too many values, those in its texts included, as JSON in JSON is read too."""
    count = sum(text.count(mark) for mark in (b",", b":", b"[", b"{")) if len(text) > MOST_TRACE_VALUES else 0
    return f"found more than {MOST_TRACE_VALUES:,} values, expected fewer" if count > MOST_TRACE_VALUES else None


def _read_lines(path: Path, lines: Iterable[tuple[int, bytes]], notes: Notes) -> Iterator[Document]:
    for number, line in lines:
        content = None if line == b"\n" else too_many_values(line) or parse_object(path, number, line, notes)
        if content is not None:
            yield Document(number, content, len(line))


def _read_whole(path: Path, encoding: Encoding, notes: Notes) -> Iterator[Document]:
    text = read_whole(path, encoding)
    if text is None:
        hint = f"expected one object a line in files so large: jq -c '.[]' {path.name}"
        raise OutputsError((Fault(str(path), None, f"found a JSON document of more than 64 MB, {hint}"),))
    size = len(text)
    try:
        fault = too_many_values(text)
        content = fault or load_json(text, notes)
    except json.JSONDecodeError as error:
        content = f"found text that is not JSON ({error.msg}, at line {error.lineno}), expected traces"
    if isinstance(content, list):
        share = size // max(len(content), 1)
        for place, each in enumerate(content, start=1):
            found = each if isinstance(each, dict) else f"found {describe_value(each)}, expected an object"
            yield Document(place, found, share)
    elif isinstance(content, dict | str):
        yield Document(1, content, size)
    else:
        yield Document(1, f"found {describe_value(content)}, expected an object or a list of objects", size)
