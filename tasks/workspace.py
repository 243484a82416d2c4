"""A run's working folder: who may write it, and which unfinished one a repeated command goes on with."""

import errno
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from gradebook.rubrics.errors import InputError, LakeError
from gradebook.tasks.files import write_text

_WORKING_FOLDERS = ("shards", "plan", "media", "verdicts", "collected", "opinions", "case_criteria", "marts")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """ROOT/runs/RUN_ID and what stands in it."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's id is the folder's name."""
        return self.path.name

    @property
    def identity_file(self) -> Path:
        """What is evaluated by what: its fingerprint, and when it was begun."""
        return self.path / "run.json"

    @property
    def request_file(self) -> Path:
        """The words of the command that evaluates it, and the folder it was typed in."""
        return self.path / "request.json"

    @property
    def plan_summary_file(self) -> Path:
        """How much there is to do: counts of verdicts and requests, and their price."""
        return self.path / "planned.json"

    @property
    def lock_file(self) -> Path:
        """Held by the process that works on the run."""
        return self.path / "lock"

    @property
    def budget_file(self) -> Path:
        """What requests cost, a line each; not there where the judge has no price."""
        return self.path / "budget.jsonl"

    @property
    def published_file(self) -> Path:
        """The summary of the published run; not there while it is unfinished."""
        return self.path / "published.json"

    @property
    def quarantine_file(self) -> Path:
        """The refused rows."""
        return self.path / "quarantine.parquet"

    @property
    def ratings_file(self) -> Path:
        """The ratings that this run reads."""
        return self.path / "ratings.parquet"

    @property
    def feedback_file(self) -> Path:
        """What the judge wrote about the outputs; not there where it was not asked to."""
        return self.path / "feedback.parquet"

    @property
    def baseline_file(self) -> Path:
        """What the run was compared with; not there while it was not."""
        return self.path / "baseline.json"

    @property
    def report_file(self) -> Path:
        """The page about the run."""
        return self.path / "report.html"

    @property
    def timings_file(self) -> Path:
        """A line for each finished piece of work: its wall and CPU time and rows."""
        return self.path / "timings.jsonl"

    @property
    def quality_file(self) -> Path:
        """A line for each data-quality expectation."""
        return self.path / "quality.jsonl"

    @property
    def plan_folder(self) -> Path:
        """The plan files of all criteria and shards."""
        return self.path / "plan"

    def plan_file(self, criterion_id: str, shard_index: int) -> Path:
        """Request keys of one judged criterion over one shard, and what the ledger holds for them."""
        return self.plan_folder / criterion_id / f"shard-{shard_index:05d}.parquet"

    def case_criteria_file(self, shard_index: int) -> Path:
        """The criteria that the rows of one shard bring along; not there where they bring none."""
        return self.path / "case_criteria" / f"shard-{shard_index:05d}.parquet"

    def verdict_file(self, criterion_id: str, shard_index: int) -> Path:
        """Verdicts of one criterion over one shard."""
        return self.path / "verdicts" / criterion_id / f"shard-{shard_index:05d}.parquet"

    def opinion_file(self, criterion_id: str, shard_index: int) -> Path:
        """What the verdicts of one criterion over one shard rest on; there where a run has several opinions of each."""
        return self.path / "opinions" / criterion_id / f"shard-{shard_index:05d}.parquet"

    def opinion_files(self) -> list[Path]:
        """All of them, in order."""
        return sorted((self.path / "opinions").glob("*/*.parquet"))

    def collected_file(self, shard_index: int) -> Path:
        """Verdicts of all criteria over one shard, validated."""
        return self.path / "collected" / f"shard-{shard_index:05d}.parquet"

    def mart_file(self, mart: str) -> Path:
        """One mart's rows of this run."""
        return self.path / "marts" / f"{mart}.parquet"

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know of the way that the run was asked."""
        return tuple(json.loads(self._notes_file.read_text(encoding="utf-8"))) if self._notes_file.exists() else ()

    def keep_notes(self, notes: Iterable[str | None]) -> None:
        """Keep notes beside those of earlier commands, each once; None is none."""
        kept = list(dict.fromkeys([*self.notes, *(note for note in notes if note)]))
        if kept:
            write_text(self._notes_file, json.dumps(kept))

    @property
    def _notes_file(self) -> Path:
        return self.path / "notes.json"

    @property
    def is_untidy(self) -> bool:
        """Whether anything is left that the run works with."""
        return any((self.path / name).exists() for name in _WORKING_FOLDERS)

    def tidy(self) -> None:
        """Remove what a run works with, once it is published; what it sent in batches and spent stays on record."""
        for name in _WORKING_FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for pattern in ("*.requests.jsonl", "*.replies-?.jsonl", "*.keys"):  # of batches, also of a killed process
            for file in (self.path / "batches").glob(pattern):
                file.unlink(missing_ok=True)


class RunClaim:
    """A run's folder, held by this process alone until it is released or the process dies."""

    def __init__(self, folder: RunFolder, descriptor: int) -> None:
        self.folder = folder
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def release(self) -> None:
        """Let go of the folder."""
        os.close(self._descriptor)  # the kernel drops the lock, as it does for a killed process

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def claim_run(runs: Path, fingerprint: str, run_id: str | None, now: datetime) -> RunClaim:
    """Hold the folder of a new run, or of the unfinished run that evaluated the same in the same way.

    What published runs of the same left, killed before they had tidied up, is removed. Raises `InputError` where
    `run_id` is at work in another process or evaluated something else.
    """
    _tidy_published(runs, fingerprint)
    if run_id is not None:
        return _claim_named(runs, fingerprint, run_id, now)
    for folder in _unfinished(runs, fingerprint):
        claim = _try_claim(folder)
        if claim is None:
            continue
        if not folder.published_file.exists():
            return claim
        claim.release()  # published since it was listed
    return _claim_named(runs, fingerprint, f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}", now)


def _claim_named(runs: Path, fingerprint: str, run_id: str, now: datetime) -> RunClaim:
    folder = RunFolder(runs / run_id)
    claim = _try_claim(folder)
    if claim is None:
        raise InputError(
            f"--run-id: found {run_id}, which another process is evaluating now, expected an id that is free"
        )
    try:
        found = _fingerprint_of(folder)
    except InputError:
        claim.release()
        raise
    if found is None:
        identity = {"run_id": run_id, "fingerprint": fingerprint, "created_at": now.isoformat()}
        write_text(folder.identity_file, json.dumps(identity))
    elif found != fingerprint:
        with claim:
            raise InputError(
                f"--run-id: found {run_id}, which evaluated other outputs, another rubric or another judge; "
                "expected a new id or the same command"
            )
    return claim


def created_at(folder: RunFolder) -> datetime:
    """When the run was begun, UTC."""
    return datetime.fromisoformat(json.loads(folder.identity_file.read_text(encoding="utf-8"))["created_at"])


def held_folder(folder: RunFolder) -> RunClaim:
    """Hold the folder of a run, whatever it evaluates. Raises `InputError` where another process does."""
    claim = _try_claim(folder)
    if claim is None:
        raise InputError(f"{folder.run_id}: found a process that is evaluating it now, expected it to have ended")
    return claim


def _unfinished(runs: Path, fingerprint: str) -> list[RunFolder]:
    folders = [RunFolder(path) for path in sorted(runs.glob("*"), reverse=True) if path.is_dir()]
    return [folder for folder in folders if not folder.published_file.exists() and _is_of(folder, fingerprint)]


def _tidy_published(runs: Path, fingerprint: str) -> None:
    for folder in map(RunFolder, runs.glob("*")):
        if not (folder.published_file.exists() and folder.is_untidy and _is_of(folder, fingerprint)):
            continue
        claim = _try_claim(folder)
        if claim is not None:  # else its process is at it
            with claim:
                folder.tidy()


def _is_of(folder: RunFolder, fingerprint: str) -> bool:
    """Whether a run evaluates that; one that nobody can tell of, after a power failure, is in nobody's way."""
    try:
        return _fingerprint_of(folder) == fingerprint
    except InputError:
        return False


def _fingerprint_of(folder: RunFolder) -> str | None:
    """What a run evaluates; None where it is not begun. Raises `InputError` where its file does not say."""
    try:
        fingerprint: str = json.loads(folder.identity_file.read_text(encoding="utf-8"))["fingerprint"]
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError):
        raise InputError(
            f"{folder.identity_file}: found no fingerprint of a run, expected what it evaluates; remove its folder: "
            "what it asked stays in the ledger"
        ) from None
    return fingerprint


def _try_claim(folder: RunFolder) -> RunClaim | None:
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        raise LakeError(f"{folder.path}: can't be written: {error.strerror}; expected a lake that can") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return RunClaim(folder, descriptor)
