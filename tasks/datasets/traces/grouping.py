"""Spans that are strewn over a file, trace by trace in bounded memory."""

import tempfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson

_MOST_BYTES = 16 * 2**20  # of spans in memory; above it they go to temporary files
_PART_BYTES = 400  # of a part in memory, beyond its text
_PARTITIONS = 256


Other = TypeVar("Other")


class Part(NamedTuple):
    """One span as its file has it, or whatever else a format keeps of it as JSON."""

    trace_id: str
    line: int
    content: dict[str, Any]
    size: int  # bytes in the file


def grouped(parts: Iterable[Part | Other], most_bytes: int = _MOST_BYTES) -> Iterator[tuple[str, list[Part]] | Other]:
    """Traces with their parts in the order of the file; what is no part is passed on at once.

    Up to most_bytes of them the traces come in the order of their first parts; above, the parts are spread over 256
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
    with tempfile.TemporaryDirectory(prefix="gradebook-traces-") as folder:
        spill = _Spill(Path(folder))
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
    """Parts in files by the hash of their trace's id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[int, list[bytes]] = {}
        self._waiting_bytes = 0

    def add(self, part: Part) -> None:
        digest = blake2b(part.trace_id.encode(errors="surrogatepass"), digest_size=1).digest()
        line = orjson.dumps(tuple(part)) + b"\n"
        self._waiting.setdefault(digest[0] % _PARTITIONS, []).append(line)
        self._waiting_bytes += len(line)
        if self._waiting_bytes > _MOST_BYTES:
            self._write()

    def _write(self) -> None:
        for number, lines in self._waiting.items():
            with self._path(number).open("ab") as file:
                file.writelines(lines)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.jsonl"

    def traces(self) -> Iterator[tuple[str, list[Part]]]:
        self._write()
        for path in sorted(self._folder.iterdir()):
            traces: dict[str, list[Part]] = {}
            with path.open("rb") as file:
                for line in file:
                    part = Part(*orjson.loads(line))
                    traces.setdefault(part.trace_id, []).append(part)
            path.unlink()
            yield from traces.items()
