"""The replies that a file of collected outputs is made of: journals beside it, in a folder that one process writes.

No lake keeps them: they are no judgments, and a reply belongs to one file of outputs. The next file starts afresh, so
whoever forgets to name another checkpoint gets its outputs all the same, never those of an earlier one.
"""

import fcntl
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import orjson

from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.tasks.datasets.file_formats import encoding_of
from gradebook.tasks.judging.replies.journal import settled_journals


class ReplyFolder:
    """The folder of an output file's replies, locked while the block runs. Its name is hidden from globs of outputs."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.path = out.with_name(f".{out.name}.journal")
        self._lock: int | None = None

    @property
    def replies(self) -> Path:
        """The folder of the journals."""
        return self.path / "replies"

    def budget_record(self, name: str) -> Path:
        """What was spent under one name of the outputs and one way of asking."""
        return self.path / f"budget-{name}.jsonl"

    def refuse_foreign(self, option: str = "--out") -> None:
        """Raise `InputError` where the output file is there and was not collected. option: what names it."""
        if self._out.exists() and not self.path.is_dir():
            raise InputError(f"{option}: found {self._out} already there, not collected; expected a new file")

    def __enter__(self) -> Self:
        try:
            self.replies.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"--out: found {self.path}, which can't be written ({error.strerror})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise InputError(
                f"--out: found {self._out}, which another process is collecting now; wait for it, or name another file"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def refuse_other_format(out: Path, option: str = "--out") -> None:
    """Raise `InputError` where a name is not that of JSON Lines. option: what names it."""
    encoding = encoding_of(out)
    if encoding is None or encoding.format != "jsonl":
        raise InputError(option, f"{out.name!r}", "a name that ends in .jsonl, .jsonl.gz or .jsonl.zst")


class KeptReplies:
    """Where each reply stands in the journals, by request key; the texts stay on disk."""

    def __init__(self, folder: Path) -> None:
        """Read the journals. Raises `LakeError` for a broken one."""
        self._paths = list(settled_journals(folder))
        self._places: dict[bytes, tuple[int, int, int]] = {}  # journal, offset, length
        self._opened: tuple[int, int] | None = None  # journal, file
        for number, path in enumerate(self._paths):
            for offset, length, line in _lines(path):
                if line["status"] == "scored":
                    self._places.setdefault(bytes.fromhex(line["request_key"]), (number, offset, length))

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._places

    def find(self, key: str) -> dict[str, Any] | None:
        """The reply of a key as its journal has it; None where there is none."""
        place = self._places.get(bytes.fromhex(key))
        if place is None:
            return None
        number, offset, length = place
        line: dict[str, Any] = orjson.loads(os.pread(self._file(number), length, offset))
        return line

    def close(self) -> None:
        """Let go of the journals."""
        if self._opened is not None:
            os.close(self._opened[1])
            self._opened = None

    def _file(self, number: int) -> int:
        """One journal is open at a time: the rows of a file mostly follow one."""
        if self._opened is None or self._opened[0] != number:
            self.close()
            self._opened = number, os.open(self._paths[number], os.O_RDONLY)
        return self._opened[1]


def journal_cost_usd(journal: Path) -> float | None:
    """What the replies in one journal cost; None where some price is unknown, 0 where there is no journal."""
    if not journal.exists():
        return 0.0
    costs = [line["cost_usd"] for _, _, line in _lines(journal)]
    return None if None in costs else math.fsum(costs)


def _lines(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Offset, length and content of each whole line; a last one without an end was being written by who died."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            yield offset, len(line), _reply(line, path, number)
            offset += len(line)


def _reply(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        reply: dict[str, Any] = orjson.loads(line)
        bytes.fromhex(reply["request_key"])
        _ = reply["status"], reply["reply"], reply["cost_usd"]
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
        raise LakeError(f"{path}:{number}", "something else", "a reply that was collected") from None
    return reply
