"""The outcomes of a session, on disk: in memory they would take a kilobyte and more each."""

import os
import tempfile
from pathlib import Path
from typing import Any

import orjson

from gradebook.tasks.judging.replies.question import Outcome

_HEAD = 4  # bytes before each, of its length


class KeptOutcomes:
    """Outcomes by request key, in a file without a name that goes with the process. Used from one thread.

    What can't be written is kept in memory.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed in `close`
        self._end = 0
        self._kept: dict[bytes, int | Outcome] = {}  # where a key's outcome begins in the file, or itself

    def keep(self, key: str, outcome: Outcome) -> None:
        """Keep the outcome of a key; a later one takes its place."""
        try:
            place = self._append(orjson.dumps(outcome))
        except (OSError, orjson.JSONEncodeError):  # the latter of half a surrogate pair, in a file's name
            place = None
        self._kept[_short(key)] = outcome if place is None else place

    def find(self, key: str) -> Outcome | None:
        """The outcome of a key; None where none was kept."""
        kept = self._kept.get(_short(key))
        if not isinstance(kept, int):
            return kept
        length = int.from_bytes(os.pread(self._file.fileno(), _HEAD, kept), "big")
        return _outcome(orjson.loads(os.pread(self._file.fileno(), length, kept + _HEAD)))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _append(self, text: bytes) -> int | None:
        """Where a text begins that was written at the end; None where the disk is full."""
        place, piece = self._end, len(text).to_bytes(_HEAD, "big") + text
        if os.pwrite(self._file.fileno(), piece, place) < len(piece):
            return None
        self._end += len(piece)
        return place


def _short(key: str) -> bytes:
    """A key in half the space, where it is a hash in hex."""
    try:
        return bytes.fromhex(key)
    except ValueError:
        return key.encode()


def _outcome(fields: dict[str, Any]) -> Outcome:
    return Outcome(**fields | {"parts": tuple(map(_outcome, fields["parts"]))})
