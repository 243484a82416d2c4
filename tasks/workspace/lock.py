"""Locks on runs: one process works on a run, and others can ask whether one does."""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from gradebook.rubrics.model.errors import InputError, LakeError
from gradebook.tasks.system.files import try_lock, write_text
from gradebook.tasks.workspace.folder import RunFolder

LOCKS = Path("/proc/locks")
_FILE = re.compile(r"FLOCK .* ([0-9a-f]+:[0-9a-f]+:\d+) ")


def is_running(folder: RunFolder) -> bool:
    """Whether a process works on a run.

    Reads the kernel's list of locks first: trying the lock could turn away a run that begins in the same instant. The
    list lacks processes of other machines and containers, and some file systems' files have other names there, so
    otherwise a shared lock is tried for a moment.
    """
    try:
        file = os.open(folder.lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if _listed_as(os.fstat(file)) in _locked_files():
            return True
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _listed_as(file: os.stat_result) -> str:
    """Device and inode as the kernel lists them: another file system may have a file with the same inode."""
    return f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"


def _locked_files() -> set[str]:
    try:
        return set(_FILE.findall(LOCKS.read_text(encoding="ascii")))
    except OSError:
        return set()


class RunClaim:
    """Exclusive lock on a run's folder, until it is released or the process dies."""

    def __init__(self, folder: RunFolder, descriptor: int) -> None:
        self.folder = folder
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def release(self) -> None:
        os.close(self._descriptor)  # the kernel drops the lock, as it does for a killed process

    def __exit__(self, *_: object) -> None:
        self.release()


def claim_run(runs: Path, fingerprint: str, run_id: str | None, now: datetime) -> RunClaim:
    """Lock the folder of a new run, or of the unfinished run with the same fingerprint.

    Removes the working files of published runs with that fingerprint whose process was killed before tidying up. Raises
    `InputError` if another process works on `run_id`, or if that run evaluates something else.
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


def find_run(runs: Path, fingerprint: str, run_id: str | None) -> str | None:
    """Id of the run that `claim_run` would lock, without locking it; None if that is a new run.

    Raises `InputError` as `claim_run` does.
    """
    if run_id is None:
        idle = (folder for folder in _unfinished(runs, fingerprint) if not is_running(folder))
        return next((folder.run_id for folder in idle), None)
    folder = RunFolder(runs / run_id)
    if is_running(folder):
        raise _at_work(run_id)
    if _fingerprint_of(folder) not in {None, fingerprint}:
        raise _evaluates_other(run_id)
    return run_id


def _claim_named(runs: Path, fingerprint: str, run_id: str, now: datetime) -> RunClaim:
    folder = RunFolder(runs / run_id)
    claim = _try_claim(folder)
    if claim is None:
        raise _at_work(run_id)
    try:
        stored_fingerprint = _fingerprint_of(folder)
    except InputError:
        claim.release()
        raise
    if stored_fingerprint is None:
        identity = {"run_id": run_id, "fingerprint": fingerprint, "created_at": now.isoformat()}
        write_text(folder.identity_file, json.dumps(identity | {"digest": _digest_of(identity)}))
    elif stored_fingerprint != fingerprint:
        with claim:
            raise _evaluates_other(run_id)
    return claim


def _at_work(run_id: str) -> InputError:
    return InputError("--run-id", f"{run_id}, which another process is evaluating now", "an id that is free")


def _evaluates_other(run_id: str) -> InputError:
    return InputError(
        f"--run-id: found {run_id}, which evaluated other outputs, another rubric or another judge; "
        "expected a new id or the same command"
    )


def created_at(folder: RunFolder) -> datetime:
    """Time when the run began, UTC. Raises `InputError` for a file without a time."""
    identity = _identity_of(folder)
    if identity is None:
        raise InputError(f"{folder.identity_file}", "no such file", "the file that a run begins with")
    return identity[1]


def lock_folder(folder: RunFolder) -> RunClaim:
    """Lock the folder of a run of any fingerprint. Raises `InputError` if another process has locked it."""
    claim = _try_claim(folder)
    if claim is None:
        raise InputError(folder.run_id, "a process that is evaluating it now", "it to have ended")
    return claim


def _unfinished(runs: Path, fingerprint: str) -> list[RunFolder]:
    folders = [RunFolder(path) for path in sorted(runs.glob("*"), reverse=True) if path.is_dir()]
    return [folder for folder in folders if not folder.published_file.exists() and _is_of(folder, fingerprint)]


def _tidy_published(runs: Path, fingerprint: str) -> None:
    for folder in map(RunFolder, runs.glob("*")):
        if not (folder.published_file.exists() and folder.is_untidy and _is_of(folder, fingerprint)):
            continue
        claim = _try_claim(folder)
        if claim is not None:  # else its process is tidying up
            with claim:
                folder.tidy()


def _is_of(folder: RunFolder, fingerprint: str) -> bool:
    """Whether a run has this fingerprint; False if its identity file is unreadable, as after a power failure."""
    try:
        return _fingerprint_of(folder) == fingerprint
    except InputError:
        return False


def _fingerprint_of(folder: RunFolder) -> str | None:
    """Fingerprint of a run; None if the run has not begun. Raises `InputError` for a file without a fingerprint."""
    identity = _identity_of(folder)
    return None if identity is None else identity[0]


def _identity_of(folder: RunFolder) -> tuple[str, datetime] | None:
    """Fingerprint of a run and time of its begin; None if it has not begun. Raises `InputError` for a damaged file."""
    try:
        identity = json.loads(folder.identity_file.read_text(encoding="utf-8"))
        if identity.pop("digest", None) not in (None, _digest_of(identity)):  # earlier versions wrote none
            raise ValueError
        return str(identity["fingerprint"]), datetime.fromisoformat(identity["created_at"]).astimezone(UTC)
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InputError(
            f"{folder.identity_file}",
            "no fingerprint and time of a run",
            "what it evaluates and when it began",
            "remove its folder: its judgments stay in the ledger",
        ) from None


def has_lost_identity(folder: RunFolder) -> bool:
    """Whether a run's file of identity is damaged, so that its evaluation is unknown."""
    try:
        _identity_of(folder)
    except InputError:
        return True
    return False


def _digest_of(identity: Mapping[str, object]) -> str:
    return hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=8).hexdigest()


def _try_claim(folder: RunFolder) -> RunClaim | None:
    if folder.path.is_symlink():  # files that do not read are removed there
        raise LakeError(f"{folder.path}", "a link", "a folder of the lake's own")
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        descriptor = try_lock(folder.lock_file)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        raise LakeError(f"{folder.path}: can't be written: {error.strerror}; expected a lake that can") from error
    return None if descriptor is None else RunClaim(folder, descriptor)
