"""JSON objects of a file of traces: one a line, or in one document; and spans in any order, grouped by trace in bounded
memory.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import orjson

from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.rubrics.model.outputs import describe_value
from gradebook.tasks.datasets.decompression import BUFFER_BYTES, open_decompressed
from gradebook.tasks.datasets.file_formats import Encoding, Notes, load_json, parse_object, read_lines, read_whole

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
        with open_decompressed(path, encoding.compression) as stream:
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
        for position, entry in enumerate(content, start=1):
            document = entry if isinstance(entry, dict) else f"found {describe_value(entry)}, expected an object"
            yield Document(position, document, share)
    elif isinstance(content, dict | str):
        yield Document(1, content, size)
    else:
        yield Document(1, f"found {describe_value(content)}, expected an object or a list of objects", size)


_MOST_BYTES = 16 * 2**20  # of spans in memory; above it they go to temporary files
_PART_BYTES = 400  # of a part in memory, beyond its text
_PARTITIONS = 64  # each an open file


Passed = TypeVar("Passed")


class Part(NamedTuple):
    """One span as its file has it, or whatever else a format keeps of it as JSON."""

    trace_id: str
    line: int
    content: dict[str, Any]
    size: int  # bytes in the file
    source: str | None = None  # its file, if that is not the one that is read


def grouped(parts: Iterable[Part | Passed], most_bytes: int = _MOST_BYTES) -> Iterator[tuple[str, list[Part]] | Passed]:
    """Traces with their parts in the order of the file; what is no part is passed on at once.

    Up to most_bytes of them the traces come in the order of their first parts; above, the parts are spread over 64
    temporary files by their trace, and one of these is in memory at a time.
    """
    traces: dict[str, list[Part]] = {}
    size, left = 0, iter(parts)
    for part in left:
        if not isinstance(part, Part):
            yield part
            continue
        traces.setdefault(part.trace_id, []).append(part)
        size += part.size + _PART_BYTES
        if size > most_bytes:
            break
    else:
        yield from traces.items()
        return
    with ExitStack() as files:
        spill = _SpilledParts(files)
        for part in (part for trace_parts in traces.values() for part in trace_parts):
            spill.add(part)
        traces.clear()
        for part in left:
            if isinstance(part, Part):
                spill.add(part)
            else:
                yield part
        yield from spill.traces()


class _SpilledParts:
    """Parts in files by the hash of their trace's id. The files have no names, so that none outlives the process."""

    def __init__(self, files: ExitStack) -> None:
        self._opened = files
        self._files: dict[int, IO[bytes]] = {}

    def add(self, part: Part) -> None:
        digest = blake2b(part.trace_id.encode(errors="surrogatepass"), digest_size=1).digest()
        number = digest[0] % _PARTITIONS
        if number not in self._files:
            self._files[number] = self._opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # the stack closes it
        self._files[number].write(orjson.dumps(tuple(part)) + b"\n")

    def traces(self) -> Iterator[tuple[str, list[Part]]]:
        for _, file in sorted(self._files.items()):
            traces: dict[str, list[Part]] = {}
            file.seek(0)
            for line in file:
                part = Part(*orjson.loads(line))
                traces.setdefault(part.trace_id, []).append(part)
            file.truncate(0)
            yield from traces.items()
