"""Spans that are strewn over a file, trace by trace in bounded memory."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from typing import IO, Any, NamedTuple, TypeVar

import orjson

_MOST_BYTES = 16 * 2**20  # of spans in memory; above it they go to temporary files
_PART_BYTES = 400  # of a part in memory, beyond its text
_PARTITIONS = 64  # each an open file


Other = TypeVar("Other")


class Part(NamedTuple):
    """One span as its file has it, or whatever else a format keeps of it as JSON."""

    trace_id: str
    line: int
    content: dict[str, Any]
    size: int  # bytes in the file
    source: str | None = None  # its file, if that is not the one that is read


def grouped(parts: Iterable[Part | Other], most_bytes: int = _MOST_BYTES) -> Iterator[tuple[str, list[Part]] | Other]:
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
        spill = _Spill(files)
        for part in (part for kept in traces.values() for part in kept):
            spill.add(part)
        traces.clear()
        for part in left:
            if isinstance(part, Part):
                spill.add(part)
            else:
                yield part
        yield from spill.traces()


class _Spill:
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
