"""Journal: every reply is on disk, as one line, before it counts as done."""

import fcntl
import math
import os
import re
import secrets
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa

from gradebook.rubrics.model.errors import LakeError, UnfinishedError
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.system.files import GroupCommit, append_whole, sync_path

_NAMES = frozenset(JUDGMENT_SCHEMA.names)
_CHUNK_BYTES = 2**20
_REQUIRED = tuple(field.name for field in JUDGMENT_SCHEMA if not field.nullable)
_NUMBERS = tuple(
    field.name for field in JUDGMENT_SCHEMA if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
)
MOST_COST_USD = 1e6  # of one reply; a larger cost is damage, and would drown all others in a sum
MOST_COUNT = 1e12  # of tokens, bytes or milliseconds of one reply
_CHECKSUM = re.compile(rb'\{"crc32":(\d+),')

# A shorter line is no judgment: a megabyte may hold half a million of them, and runs of them are one fault.
_LEAST_BYTES = len(orjson.dumps(dict.fromkeys(_REQUIRED, 0)))
_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)

BrokenLine = tuple[LakeError, bytes]  # fault and text of a line that is no judgment
OnBroken = Callable[[BrokenLine], None]


_journals: "weakref.WeakSet[Journal]" = weakref.WeakSet()  # open ones of this process


def _close_copies() -> None:
    """Close a fork's copies: a child that lives longer than the writer would keep its journals locked."""
    for journal in list(_journals):
        journal.leave()
    _journals.clear()


os.register_at_fork(after_in_child=_close_copies)


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
        self._disk = GroupCommit(self._file)
        _journals.add(self)
        sync_path(folder)

    def append(self, *judgments: dict[str, Any]) -> None:
        """Write the judgments of a reply, with all columns of JUDGMENT_SCHEMA; on return the kernel has them.

        They are on disk at most 50 ms or 64 replies later. Raises `UnfinishedError` if a write fails, and on every
        later call.
        """
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
        lines = b"".join(_checked(orjson.dumps(judgment, option=options)) for judgment in judgments)
        with self._lock:
            if self._fault is None:
                self._fault = append_whole(self._file, lines) or self._disk.fault
                self._disk.note()
            if self._fault is not None:
                raise UnfinishedError(f"{self.path}: the journal can't be written: {self._fault}")

    def close(self) -> None:
        """Close the file; an empty journal is removed."""
        with self._lock:
            if self._file is None:
                return
            self._disk.close()
            if os.fstat(self._file).st_size == 0:
                self.path.unlink(missing_ok=True)
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a child that was just forked may not have closed its copy yet
            os.close(self._file)
            self._file = None
            _journals.discard(self)

    def leave(self) -> None:
        """Close the copy of the file in a fork's child, with nothing else: the journal is the parent's."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        self._path = path
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
        judgment = _parse_line(os.pread(self._file, length, offset), str(self._path))
        return judgment | {"asked_at": datetime.fromisoformat(judgment["asked_at"])}

    def close(self) -> None:
        os.close(self._file)

    def _note(self, line: bytes) -> None:
        try:
            judgment = _parse_line(line, str(self._path))
        except LakeError:
            return
        if judgment.keys() == _NAMES and judgment["status"] == "scored":
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


def read_journal(path: Path, row_count: int, on_broken: OnBroken | None = None) -> Iterator[pa.Table]:
    """Read a journal as tables of JUDGMENT_SCHEMA, row_count lines at a time.

    An unterminated last line was being written when its writer died, and is left out. Any other broken line is
    passed to on_broken, and left out; without it `LakeError` is raised with file and line.
    """

    def refuse(broken: BrokenLine) -> None:
        raise broken[0]

    on_broken = on_broken or refuse
    with path.open("rb") as file:
        numbered = _without_short_runs(file, path, on_broken)
        while lines := list(islice(numbered, row_count)):
            yield _table_of(lines, path, on_broken)


def _without_short_runs(file: Iterable[bytes], path: Path, on_broken: OnBroken) -> Iterator[tuple[int, bytes]]:
    """Whole lines with their numbers. A run of lines that are too short for a judgment is one broken line."""
    run: list[bytes] = []
    number = 0
    for number, line in enumerate(chain(file, [b""]), start=1):  # the end of the file ends a run too
        if line.endswith(b"\n") and len(line) < _LEAST_BYTES:
            run.append(line)
            continue
        if len(run) == 1:
            yield number - 1, run[0]
        elif run:
            received = f"{len(run):,} lines that are too short for a judgment"
            on_broken((LakeError(f"{path}:{number - len(run)}", received, "judgments"), b"".join(run)))
        run.clear()
        if line.endswith(b"\n"):
            yield number, line


def _table_of(lines: list[tuple[int, bytes]], path: Path, on_broken: OnBroken) -> pa.Table:
    """Table of the lines that are judgments. lines: each with its number."""
    judgments = []
    for number, line in lines:
        try:
            judgments.append((number, line, _read_line(line, path, number)))
        except LakeError as fault:
            on_broken((fault, line))
    try:
        return _table([judgment for _, _, judgment in judgments])
    except _MISFITS:
        pass
    fitting = []
    for number, line, judgment in judgments:
        try:
            _table([judgment])
            fitting.append(judgment)
        except _MISFITS as error:
            on_broken((LakeError(f"{path}:{number}", f"a value of another type ({error})", "a judgment"), line))
    return _table(fitting)


def _checked(line: bytes) -> bytes:
    """JSON line with a checksum of itself as its first value."""
    return b'{"crc32":%d,' % zlib.crc32(line.rstrip(b"\n")) + line[1:]


def _read_line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """Judgment of a line, with all columns and values in their ranges. Raises `LakeError`."""
    location = f"{path}:{number}"
    judgment = dict.fromkeys(_NAMES) | _parse_line(line, location)  # earlier versions wrote fewer columns
    missing = [name for name in _REQUIRED if judgment[name] is None]
    if missing:
        raise LakeError(location, f"null in {', '.join(missing)}", "a value")
    for name in _NUMBERS:
        value, maximum = judgment[name], MOST_COST_USD if name == "cost_usd" else MOST_COUNT
        if isinstance(value, int | float) and not (0 <= value <= maximum and math.isfinite(value)):
            raise LakeError(location, f"{name} {value!r}", f"0 to {maximum:g}")
    if not "0002" <= str(judgment["asked_at"])[:4] <= "9998":  # clocks may be wrong; Python has no other years
        raise LakeError(location, f"asked_at {judgment['asked_at']!r:.60}", "a year of 2 to 9998")
    if rb"\u0000" in line and any("\0" in value for value in judgment.values() if isinstance(value, str)):
        raise LakeError(location, "a null character", "text, from which they were taken out")
    if judgment["distribution"] is not None and not _is_distribution(judgment["distribution"], judgment["level_id"]):
        raise LakeError(
            location, f"distribution {judgment['distribution']!r:.60}", "probabilities of levels, and its own"
        )
    return judgment


def _is_distribution(text: Any, level_id: Any) -> bool:
    """Whether a text is JSON with probabilities of levels, among them the judgment's own if it has one."""
    try:
        shares = orjson.loads(text)
        return level_id in (None, *shares) and all(0 <= share <= 1 + 1e-6 for share in shares.values())
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return False


def _parse_line(line: bytes, location: str) -> dict[str, Any]:
    """Columns of a line, as they were written. Lines of earlier versions have no checksum. Raises `LakeError`."""
    if checksum := _CHECKSUM.match(line):
        line = b"{" + line[checksum.end() :].rstrip(b"\n")
        if zlib.crc32(line) != int(checksum[1]):
            raise LakeError(location, "a line that differs from its checksum", "it as it was written")
    try:
        judgment = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise LakeError(location, "no JSON", "a judgment") from None
    if not isinstance(judgment, dict) or not judgment.keys() <= _NAMES:
        raise LakeError(location, "other columns", "those of a judgment")
    return judgment


def _table(judgments: list[dict[str, Any]]) -> pa.Table:
    columns = []
    for field in JUDGMENT_SCHEMA:
        values = [judgment[field.name] for judgment in judgments]
        is_time = pa.types.is_timestamp(field.type)
        columns.append(pa.array(values, pa.string()).cast(field.type) if is_time else pa.array(values, field.type))
    return pa.table(columns, schema=JUDGMENT_SCHEMA)
