"""Record of a run's batches, on disk before anything is sent, so that a kill causes no double payment."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.types import StringConstraints

from gradebook.rubrics.model.errors import LakeError, UnfinishedError
from gradebook.tasks.system.files import append_whole

RECORD = "record.jsonl"
_Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One file of requests, from the moment it is to be sent.

    worst_usd: maximum cost; largest_usd: maximum cost of one of its requests. ending: None while replies may still
    come.
    """

    intent_id: str
    base_url: str
    digest: str  # of the file's bytes
    request_count: int
    worst_usd: float
    largest_usd: float
    ticket: int | None = None  # of the budget's record; None: no price is known
    first_shard: int
    last_shard: int
    intended_at: datetime
    file_id: str | None = None  # of the file at the endpoint
    batch_id: str | None = None
    submitted_at: datetime | None = None
    ending: str | None = None
    reason: str | None = None  # of the failure, as reported by the endpoint
    reply_count: int = 0
    cost_usd: float | None = None
    remote_files: tuple[str, ...] = ()  # files to delete at the endpoint after the end


class _Note(BaseModel):
    """Line of the record: changes to an intent. The first line of an intent has all initial fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    intent_id: _Id
    base_url: str = ""
    digest: str = ""
    request_count: int = 0
    worst_usd: float = 0.0
    largest_usd: float = 0.0
    ticket: int | None = None
    first_shard: int = 0
    last_shard: int = 0
    intended_at: datetime | None = None
    file_id: str | None = None
    batch_id: str | None = None
    submitted_at: datetime | None = None
    ending: str | None = None
    reason: str | None = None
    reply_count: int = 0
    cost_usd: float | None = None
    remote_files: tuple[str, ...] = ()


class BatchRecord:
    """Append-only file of a run's batches, one JSON line per step. One process writes it at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / RECORD
        self._intents = {intent.intent_id: intent for intent in _read_intents(self._path, is_repaired=True)}
        folder.mkdir(parents=True, exist_ok=True)
        self._file: int | None = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    @property
    def intents(self) -> tuple[Intent, ...]:
        """All intents, oldest first."""
        return tuple(self._intents.values())

    @property
    def open_intents(self) -> tuple[Intent, ...]:
        """Intents that have not ended."""
        return tuple(intent for intent in self.intents if intent.ending is None)

    def add(self, intent: Intent) -> None:
        """Record an intent; on return it is on disk. Raises `UnfinishedError` if that fails."""
        fields = {name: getattr(intent, name) for name in Intent.__slots__}
        self._append({name: value for name, value in fields.items() if value not in (None, ())})
        self._intents[intent.intent_id] = intent

    def note(self, intent: Intent, **changes: Any) -> Intent:
        """Record changes to an intent; on return they are on disk. Raises `UnfinishedError` if that fails."""
        self._append({"intent_id": intent.intent_id, **changes})
        changed = replace(self._intents[intent.intent_id], **changes)
        self._intents[intent.intent_id] = changed
        return changed

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, note: dict[str, Any]) -> None:
        """Write a line in one call. Nothing may follow a partial line, so the record is then closed."""
        line = orjson.dumps(note, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z)
        fault = append_whole(self._file, line, is_synced=True)
        if fault is not None:
            self.close()
            raise UnfinishedError(f"{self._path}: the record of the batches can't be written: {fault}")


def has_open_batches(folder: Path) -> bool:
    """Whether a run has batches with outstanding replies, or files at the endpoint."""
    return any(intent.ending is None or intent.remote_files for intent in _read_intents(folder / RECORD))


def _read_intents(path: Path, *, is_repaired: bool = False) -> Iterator[Intent]:
    """Intents of a record. A torn last line was never relied on, and is cut off if is_repaired."""
    if not path.exists():
        return
    content = path.read_bytes()
    *lines, torn = content.split(b"\n")
    if torn and is_repaired:
        os.truncate(path, len(content) - len(torn))
    noted: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            note = _Note.model_validate_json(line)
        except ValidationError:
            raise LakeError(f"{path}:{number}", "no line of a record of batches", "one") from None
        if note.intent_id not in noted and note.intended_at is None:
            raise LakeError(f"{path}:{number}", "a step of a batch that was never begun", "its beginning")
        noted.setdefault(note.intent_id, {}).update(note.model_dump(exclude_unset=True))
    yield from (Intent(**fields) for fields in noted.values())
