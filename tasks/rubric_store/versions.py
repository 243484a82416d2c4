"""The rubric versions of a lake: each is kept for ever; a pointer says which one an id alone means."""

from contextlib import suppress
from datetime import datetime
from typing import Any

import duckdb

from gradebook.rubrics.files.digest import canonical_body, describe_difference, rubric_digest, rubric_from_body
from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.files.tables import criteria_table, levels_table
from gradebook.rubrics.model.errors import Fault, InputError, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import unknown_word
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect, connect_up_to_date, upgrade_lake
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query


def find_rubric(name: str, lake: Lake) -> Rubric:
    """The rubric of a file, else the shipped one, else the one that the lake keeps under `ID@VERSION` or `ID`.

    Raises `RubricError`.
    """
    try:
        return read_rubric(name)
    except RubricError as error:
        first = error.faults[0]
        is_nowhere = first.rule == "unknown-rubric" and first.path == name
        stored = stored_rubric(lake, name) if is_nowhere else None
        if stored is None and is_nowhere and "@" in name:
            message = f"found no version of it in {lake.name}, expected one of those that `gradebook rubric list` shows"
            raise RubricError((Fault(name, None, message, "unknown-rubric"),)) from None
        if stored is None:
            raise
        return stored


def list_versions(lake: Lake) -> tuple[Row, ...]:
    """Every rubric version that the lake holds, the newest first; none where there is no lake."""
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        return read_rows(connection, query("rubric_store/versions"))
    return ()


def stored_rubric(lake: Lake, name: str) -> Rubric | None:
    """The rubric `ID@VERSION`, or the one that the pointer of `ID` names; None where the lake does not know the id.

    Raises `RubricError` for an unknown version, and for an id whose pointer was deleted.
    """
    rubric_id, _, version = name.partition("@")
    held: dict[str, str] = {}
    latest = None
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        held = {row["rubric_version"]: row["body"] for row in _bodies(connection, rubric_id)}
        latest = _pointer(connection, rubric_id)
    if not held:
        return None
    wanted = version or latest
    if wanted is None:
        message = f"found no latest version, expected {rubric_id}@VERSION with one of {', '.join(sorted(held))}"
        raise RubricError((Fault(rubric_id, None, message, "unknown-rubric"),))
    if wanted not in held:
        message = f"found the version {wanted!r}, expected {unknown_word(wanted, held)}"
        raise RubricError((Fault(rubric_id, None, message, "unknown-rubric"),))
    return rubric_from_body(held[wanted])


def version_before(lake: Lake, rubric: Rubric) -> Rubric | None:
    """The kept version that a rubric is the next one of: the highest below its own.

    The same version with another text is its own predecessor, which no step leads away from; with the same text it has
    none. Where all are higher it is the highest.
    """
    held: dict[str, str] = {}
    with suppress(NoLakeThere), connect(lake, read_only=True) as connection:
        held = {row["rubric_version"]: row["body"] for row in _bodies(connection, rubric.id)}
    if held.get(rubric.version) == canonical_body(rubric) or not held:
        return None
    below = [version for version in held if _numbers(version) <= _numbers(rubric.version)]
    return rubric_from_body(held[max(below or held, key=_numbers)])


def delete_pointer(lake: Lake, rubric_id: str) -> None:
    """Delete the pointer of an id: its versions stay, and have to be named. Raises `InputError` where there is none."""

    upgrade_lake(lake)

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        if _pointer(connection, rubric_id) is None:
            raise InputError("rubric", f"no latest version of {rubric_id!r} in {lake.name}", "one to delete")
        connection.execute("delete from rubric_pointers where rubric_id = ?", [rubric_id])

    commit(lake, f"delete the pointer of rubric {rubric_id}", body)


def refuse_changed_rubric(lake: Lake, rubric: Rubric) -> None:
    """Raise `RubricError` where the lake holds this id and version with another digest; the difference is shown."""
    with suppress(NoLakeThere), connect(lake, read_only=True) as connection:
        _is_kept(connection, rubric)


def keep_rubric(connection: duckdb.DuckDBPyConnection, rubric: Rubric, now: datetime) -> None:
    """Keep a version that a run used, with its criteria and levels, and let its id mean it.

    A version that is kept already stays as it is. Raises `RubricError` where it has another digest.
    """
    is_kept = _is_kept(connection, rubric)
    _point_to(connection, rubric.id, rubric.version, now)
    if not is_kept:
        connection.execute(
            "insert into rubrics (rubric_id, rubric_version, digest, body, created_at) values (?, ?, ?, ?, ?)",
            [rubric.id, rubric.version, rubric_digest(rubric), canonical_body(rubric), now],
        )
        connection.register("kept_criteria", criteria_table("", rubric))
        connection.execute("insert into criteria by name select * exclude (run_id, gate_threshold) from kept_criteria")
    connection.register("kept_levels", levels_table(rubric))  # an earlier gradebook kept none
    connection.execute(
        "insert into levels by name from kept_levels where not exists ("
        "from levels where rubric_id = ? and rubric_version = ?)",
        [rubric.id, rubric.version],
    )


def _is_kept(connection: duckdb.DuckDBPyConnection, rubric: Rubric) -> bool:
    try:
        row = connection.execute(
            "select digest, body from rubrics where rubric_id = ? and rubric_version = ?", [rubric.id, rubric.version]
        ).fetchone()
    except duckdb.CatalogException:  # a lake whose tables are not made yet
        return False
    if row is None:
        return False
    if row[0] != rubric_digest(rubric):
        changes = "; ".join(describe_difference(rubric_from_body(row[1]), rubric))
        message = f"found another text than the {rubric.version} that runs used ({changes}), expected a new version"
        raise RubricError((Fault(rubric.id, None, message),))
    return True


def _point_to(connection: duckdb.DuckDBPyConnection, rubric_id: str, version: str, now: datetime) -> None:
    """Let the id mean this version, unless it means a newer one already."""
    current = _pointer(connection, rubric_id)
    if current is not None and _numbers(current) >= _numbers(version):
        return
    connection.execute("delete from rubric_pointers where rubric_id = ?", [rubric_id])
    connection.execute("insert into rubric_pointers values (?, ?, ?)", [rubric_id, version, now])


def _bodies(connection: duckdb.DuckDBPyConnection, rubric_id: str) -> tuple[Row, ...]:
    return read_rows(connection, "select rubric_version, body from rubrics where rubric_id = ?", rubric_id)


def _pointer(connection: duckdb.DuckDBPyConnection, rubric_id: str) -> str | None:
    row = connection.execute("select rubric_version from rubric_pointers where rubric_id = ?", [rubric_id]).fetchone()
    return None if row is None else str(row[0])


def _numbers(version: str) -> tuple[Any, ...]:
    return tuple(int(part) for part in version.split("."))
