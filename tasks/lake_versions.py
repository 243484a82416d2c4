"""The versions of a lake: which one a text means."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import duckdb

from gradebook.rubrics.errors import InputError
from gradebook.tasks.lake import Lake, connect, find_lake

_NUMBER = re.compile(r"\d{1,100}", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(?P<seconds>:\d\d(?P<fraction>\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
_RUN = "select status, version from runs where run_id = ?"
_LAST_BEFORE = "select max(snapshot_id) from ducklake_snapshots('lake') where snapshot_time < ?"
_FIRST = "select strftime(timezone('UTC', min(snapshot_time)), '%Y-%m-%d %H:%M:%S UTC') from ducklake_snapshots('lake')"


def find_lake_at(uri: str, data: str | None, at: str | None) -> Lake:
    """Read a lake's URI, as `find_lake` does, and what `--at` says: the lake as it was then.

    Raises `InputError` for a text that means no version, `LakeError` where there is no such lake.
    """
    lake = find_lake(uri, data)
    return lake if at is None else replace(lake, at=find_version(lake, at))


def find_version(lake: Lake, text: str) -> int:
    """The version that a text means: a version's number, the id of a published run, or a time.

    A time means the last version made by then: in UTC where it has no zone; to the end of the day, minute or second
    that it names. A number is not looked up: opening the lake tells whether it has that version. Raises `InputError`.
    """
    if _NUMBER.fullmatch(text):
        return int(text)
    with connect(lake, read_only=True) as connection:
        runs = connection.execute(_RUN, [text]).fetchall()
        if runs:
            return _version_of_run(text, *runs[0])
        if _TIME.fullmatch(text):
            return _version_by(connection, text)
    raise InputError(
        f"--at: found {text!r}, expected a version, the id of a published run or a time, "
        "as 2026-11-01 or 2026-11-01T09:30; `gradebook versions` lists them"
    )


def _version_of_run(run_id: str, status: str, version: int | None) -> int:
    if status != "published" or version is None:
        raise InputError(f"--at: found run {run_id}, which is {status}, expected a published run")
    return version


def _version_by(connection: duckdb.DuckDBPyConnection, text: str) -> int:
    ((version,),) = connection.execute(_LAST_BEFORE, [_end_of(text)]).fetchall()
    if version is None:
        ((first,),) = connection.execute(_FIRST).fetchall()
        raise InputError(f"--at: found {text}, expected a time that is not before the first version, of {first}")
    return int(version)


def _end_of(text: str) -> datetime:
    """The first moment after the day, minute, second or microsecond that a text names."""
    written = _TIME.fullmatch(text)
    length = timedelta(days=1)
    if written and written[1]:
        length = timedelta(minutes=1)
        if written["seconds"]:
            length = timedelta(microseconds=1) if written["fraction"] else timedelta(seconds=1)
    try:
        moment = datetime.fromisoformat(text)
        return (moment.replace(tzinfo=moment.tzinfo or UTC) + length).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InputError(f"--at: found {text}, expected a time that there is ({error})") from None
