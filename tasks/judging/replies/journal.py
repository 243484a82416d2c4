"""Journal: every reply is on disk, as one line, before it counts as done."""

import fcntl
import os
import secrets
import threading
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
import pyarrow as pa

from gradebook.rubrics.model.errors import LakeError, UnfinishedError
from gradebook.rubrics.model.judgments import JUDGMENT_SCHEMA
from gradebook.tasks.system.files import append_whole

_NAMES = frozenset(JUDGMENT_SCHEMA.names)
_CHUNK_BYTES = 2**20
_REQUIRED = tuple(field.name for field in JUDGMENT_SCHEMA if not field.nullable)


class Journal:
    """Append-only JSON Lines file of judgments, locked while its writer lives; thread-safe."""

    def __init__(self, folder: Path, run_id: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{run_id}.{os.getpid()}.{secrets.token_hex(4)}"
        self.path = folder / f"{name}.jsonl"
        opening = folder / f"{name}.opening"  # renamed to .jsonl once locked, or a sweep could settle it
        self._lock = threading.Lock()
        self._fault: str | None = None
        self._file: int | None = os.open(opening, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        opening.rename(self.path)

    def append(self, *judgments: dict[str, Any]) -> None:
        """Write the judgments of a reply, with all columns of JUDGMENT_SCHEMA; on return the kernel has them.

        Raises `UnfinishedError` if a write fails, and on every later call.
        """
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
        lines = b"".join(orjson.dumps(judgment, option=options) for judgment in judgments)
        with self._lock:
            if self._fault is None:
                self._fault = append_whole(self._file, lines)
            if self._fault is not None:
                raise UnfinishedError(f"{self.path}: the journal can't be written: {self._fault}")

    def close(self) -> None:
        """Close the file; an empty journal is removed."""
        with self._lock:
            if self._file is None:
                return
            if os.fstat(self._file).st_size == 0:
                self.path.unlink(missing_ok=True)
            else:
                os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def settled_journals(folder: Path) -> Iterator[Path]:
    """Yield the journals that no living process locks, by name. Each is locked while it is yielded."""
    for path in sorted(folder.glob("*.jsonl")):
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # swept by another process
            continue
        try:
            if _lock_journal(file, path):
                yield path
        finally:
            os.close(file)


def _lock_journal(file: int, path: Path) -> bool:
    """Lock a journal. False if another process locks it, or it was swept between opening and locking."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), os.stat(path))  # noqa: PTH116 - the path's, compared with the open file's
    except (BlockingIOError, FileNotFoundError):
        return False


class JournalTail:
    """Reader of another session's journal: finds its scored judgments as they arrive, by request key.

    The file stays open, so it can be read to its end after it was settled and deleted.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._end = 0  # end of the last whole line read
        self._places: dict[str, tuple[int, int]] = {}  # request key -> offset and length of its line

    @property
    def is_live(self) -> bool:
        """Whether a process locks the journal: its writer, or a process that settles it."""
        return _is_locked(self._file)

    @property
    def size(self) -> int:
        """Bytes of the whole lines read."""
        return self._end

    def advance(self) -> None:
        """Read the new lines; invalid ones are skipped, as settling the journal will report them."""
        rest = b""
        while chunk := os.pread(self._file, _CHUNK_BYTES, self._end + len(rest)):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            for line in lines:
                self._note(line)
                self._end += len(line) + 1

    def judgment(self, key: str) -> dict[str, Any] | None:
        """First scored judgment of a key among the lines read, with all columns of JUDGMENT_SCHEMA."""
        if key not in self._places:
            return None
        offset, length = self._places[key]
        judgment: dict[str, Any] = orjson.loads(os.pread(self._file, length, offset))
        return judgment | {"asked_at": datetime.fromisoformat(judgment["asked_at"])}

    def close(self) -> None:
        os.close(self._file)

    def _note(self, line: bytes) -> None:
        try:
            judgment = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        if isinstance(judgment, dict) and judgment.keys() == _NAMES and judgment["status"] == "scored":
            self._places.setdefault(judgment["request_key"], (self._end, len(line)))


def is_journal_held(path: Path) -> bool:
    """Whether a living process locks the journal; False if the file is gone."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return _is_locked(file)
    finally:
        os.close(file)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: probes may overlap
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def read_journal(path: Path, row_count: int) -> Iterator[pa.Table]:
    """Read a journal as tables of JUDGMENT_SCHEMA, row_count lines at a time.

    An unterminated last line was being written when its writer died, and is left out. Any other broken line raises
    `LakeError` with file and line.
    """
    with path.open("rb") as file:
        whole = (line for line in file if line.endswith(b"\n"))
        numbered = enumerate(whole, start=1)
        while lines := list(islice(numbered, row_count)):
            judgments = [(number, _read_line(line, path, number)) for number, line in lines]
            try:
                yield _table([judgment for _, judgment in judgments])
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                raise LakeError(_first_misfit(judgments, path)) from None


def _read_line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        judgment = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise LakeError(f"{path}:{number}", "no JSON", "a judgment") from None
    if not isinstance(judgment, dict) or not judgment.keys() <= _NAMES:
        raise LakeError(f"{path}:{number}", "other columns", "those of a judgment")
    judgment = dict.fromkeys(_NAMES) | judgment  # earlier versions wrote fewer columns
    missing = [name for name in _REQUIRED if judgment[name] is None]
    if missing:
        raise LakeError(f"{path}:{number}", f"null in {', '.join(missing)}", "a value")
    return judgment


def _table(judgments: list[dict[str, Any]]) -> pa.Table:
    columns = []
    for field in JUDGMENT_SCHEMA:
        values = [judgment[field.name] for judgment in judgments]
        is_time = pa.types.is_timestamp(field.type)
        columns.append(pa.array(values, pa.string()).cast(field.type) if is_time else pa.array(values, field.type))
    return pa.table(columns, schema=JUDGMENT_SCHEMA)


def _first_misfit(judgments: list[tuple[int, dict[str, Any]]], path: Path) -> str:
    for number, judgment in judgments:
        try:
            _table([judgment])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            return f"{path}:{number}: found a value of another type, expected a judgment: {error}"
    return f"{path}: found values that make no table"
