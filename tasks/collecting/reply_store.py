"""Stored replies behind a file of collected outputs: journals beside it, in a folder locked by one process.

These replies are in no lake: they are no judgments, and a reply belongs to one file of outputs. The next file starts
afresh, so a forgotten `--checkpoint` never yields the outputs of an earlier checkpoint.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import orjson

from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.tasks.datasets.file_formats import encoding_of
from gradebook.tasks.judging.prices import total_usd
from gradebook.tasks.judging.replies.journal import settled_journals
from gradebook.tasks.system.files import try_lock


class ReplyFolder:
    """Folder of an output file's replies, locked while the block runs. Its name is hidden from globs of outputs."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.path = out.with_name(f".{out.name}.journal")
        self._lock: int | None = None

    @property
    def replies(self) -> Path:
        """Folder of the journals."""
        return self.path / "replies"

    def budget_record(self, name: str) -> Path:
        """Record of the spending under one name of the outputs and one set of settings."""
        return self.path / f"budget-{name}.jsonl"

    def refuse_foreign(self, option: str = "--out") -> None:
        """Raise `InputError` if the output file exists and was not collected. option: option that names it."""
        if self._out.exists() and not self.path.is_dir():
            raise InputError(f"{option}: found {self._out} already there, not collected; expected a new file")

    def __enter__(self) -> Self:
        try:
            self.replies.mkdir(parents=True, exist_ok=True)
            self._lock = try_lock(self.path / "lock")
        except OSError as error:
            raise InputError(f"--out: found {self.path}, which can't be written ({error.strerror})") from None
        if self._lock is None:
            raise InputError(
                f"--out: found {self._out}, which another process is collecting now; wait for it, or name another file"
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def refuse_other_format(out: Path, option: str = "--out") -> None:
    """Raise `InputError` unless a name is that of JSON Lines. option: option that names it."""
    encoding = encoding_of(out)
    if encoding is None or encoding.format != "jsonl":
        raise InputError(option, f"{out.name!r}", "a name that ends in .jsonl, .jsonl.gz or .jsonl.zst")


class StoredReplies:
    """Places of the replies in the journals, by request key; the texts stay on disk."""

    def __init__(self, folder: Path) -> None:
        """Read the journals. Raises `LakeError` for a broken one."""
        self._paths = list(settled_journals(folder))
        self._places: dict[bytes, tuple[int, int, int]] = {}  # request key -> (journal, offset, length)
        self._open_file: tuple[int, int] | None = None  # (journal, its file descriptor)
        for number, path in enumerate(self._paths):
            for offset, length, line in _lines(path):
                if line["status"] == "scored":
                    self._places.setdefault(bytes.fromhex(line["request_key"]), (number, offset, length))

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._places

    def find(self, key: str) -> dict[str, Any] | None:
        """Reply of a key as in its journal; None if there is none."""
        position = self._places.get(bytes.fromhex(key))
        if position is None:
            return None
        number, offset, length = position
        line: dict[str, Any] = orjson.loads(os.pread(self._file(number), length, offset))
        return line

    def close(self) -> None:
        if self._open_file is not None:
            os.close(self._open_file[1])
            self._open_file = None

    def _file(self, number: int) -> int:
        """Open journal; one at a time, as the rows of a file mostly follow one journal."""
        if self._open_file is None or self._open_file[0] != number:
            self.close()
            self._open_file = number, os.open(self._paths[number], os.O_RDONLY)
        return self._open_file[1]


def journal_cost_usd(journal: Path) -> float | None:
    """Cost of the replies in one journal; None if a price is unknown, 0 without a journal."""
    if not journal.exists():
        return 0.0
    return total_usd(line["cost_usd"] for _, _, line in _lines(journal))


def _lines(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Offset, length and content of each whole line; an unterminated last line was being written at a kill."""
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
