"""Rubric versions of a lake: immutable once stored; a pointer gives the version of an id without a version.

Callers pass a rubric as a file, a name, a mapping or an object.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.files.dump import rubric_values
from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.files.tables import criteria_table, levels_table
from gradebook.rubrics.files.validate import validate
from gradebook.rubrics.files.versions import canonical_body, describe_difference, rubric_digest, rubric_from_body
from gradebook.rubrics.model.errors import Fault, InputError, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import unknown_word
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, connect_up_to_date, prepare_lake, upgrade_lake
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query


class RubricState(StrEnum):
    """State of a rubric version in a lake; a version that a run stored is active."""

    draft = "draft"
    active = "active"
    retired = "retired"


def find_rubric(name: str, lake: Lake) -> Rubric:
    """Find a rubric: a file, else a shipped rubric, else `ID@VERSION` or `ID` in the lake.

    Raises `RubricError`.
    """
    try:
        return read_rubric(name)
    except RubricError as error:
        first_fault = error.faults[0]
        is_nowhere = first_fault.rule == "unknown-rubric" and first_fault.path == name
        stored_version = stored_rubric(lake, name) if is_nowhere else None
        if stored_version is None and is_nowhere and "@" in name:
            message = f"found no version of it in {lake.name}, expected one of those that `gradebook rubric list` shows"
            raise RubricError((Fault(name, None, message, "unknown-rubric"),)) from None
        if stored_version is None:
            raise
        return stored_version


def list_versions(lake: Lake) -> tuple[Row, ...]:
    """Rubric versions in the lake, newest first; none if there is no lake."""
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        return read_rows(connection, query("rubric_store/versions"))
    return ()


def stored_rubric(lake: Lake, name: str) -> Rubric | None:
    """Rubric `ID@VERSION`, or the one that the pointer of `ID` names; None if the lake does not know the id.

    Raises `RubricError` for an unknown version, and for an id whose pointer was deleted.
    """
    rubric_id, _, version = name.partition("@")
    bodies: dict[str, str] = {}
    latest = None
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        bodies = {row["rubric_version"]: row["body"] for row in _bodies(connection, rubric_id)}
        latest = _pointer(connection, rubric_id)
    if not bodies:
        return None
    chosen_version = version or latest
    if chosen_version is None:
        message = f"found no latest version, expected {rubric_id}@VERSION with one of {', '.join(sorted(bodies))}"
        raise RubricError((Fault(rubric_id, None, message, "unknown-rubric"),))
    if chosen_version not in bodies:
        message = f"found the version {chosen_version!r}, expected {unknown_word(chosen_version, bodies)}"
        raise RubricError((Fault(rubric_id, None, message, "unknown-rubric"),))
    return rubric_from_body(bodies[chosen_version])


def version_before(lake: Lake, rubric: Rubric) -> Rubric | None:
    """Stored predecessor of a rubric: the highest version below its own.

    The stored version with the same number is the predecessor if its text differs, as no version step explains the
    change; None if the text is the same. If all stored versions are higher, the highest. Drafts that no run used are no
    predecessors: their text may change.
    """
    bodies: dict[str, str] = {}
    with suppress(NoLakeThere), connect(lake, read_only=True) as connection:
        bodies = {row["rubric_version"]: row["body"] for row in _bodies(connection, rubric.id)}
        with suppress(duckdb.CatalogException):  # a lake of an earlier gradebook
            for (version,) in connection.execute(_OPEN_DRAFTS, [rubric.id]).fetchall():
                bodies.pop(version, None)
    if bodies.get(rubric.version) == canonical_body(rubric) or not bodies:
        return None
    below = [version for version in bodies if _numbers(version) <= _numbers(rubric.version)]
    return rubric_from_body(bodies[max(below or bodies, key=_numbers)])


def delete_pointer(lake: Lake, rubric_id: str) -> None:
    """Delete the pointer of an id; its versions remain and must be named. Raises `InputError` if there is none."""

    upgrade_lake(lake)

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        if _pointer(connection, rubric_id) is None:
            raise InputError("rubric", f"no latest version of {rubric_id!r} in {lake.name}", "one to delete")
        connection.execute("delete from rubric_pointers where rubric_id = ?", [rubric_id])

    commit(lake, f"delete the pointer of rubric {rubric_id}", body)


def register_rubric(
    lake: Lake,
    rubric: Rubric,
    state: RubricState,
    now: datetime,
    refuse: Callable[[duckdb.DuckDBPyConnection], None] = lambda _connection: None,
) -> None:
    """Store a version without a run, or set the state of a stored one.

    The text of a draft may change until a run uses it. The id's pointer moves to the highest active version if needed.
    refuse: called in the transaction; raises an error to store nothing. Raises `RubricError` if the lake stores this
    version, used or active, with another digest.
    """
    prepare_lake(lake)

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        refuse(connection)
        name = [rubric.id, rubric.version]
        if _state(connection, rubric) == RubricState.draft and not connection.execute(_USED, name).fetchall():
            for table in ("rubrics", "criteria", "levels"):
                connection.execute(f"delete from {table} where rubric_id = ? and rubric_version = ?", name)
        connection.execute("delete from rubric_states where rubric_id = ? and rubric_version = ?", name)
        connection.execute("insert into rubric_states values (?, ?, ?, ?)", [*name, state, now])
        store_rubric(connection, rubric, now)
        if state != RubricState.active and _pointer(connection, rubric.id) == rubric.version:
            connection.execute("delete from rubric_pointers where rubric_id = ?", [rubric.id])
            for row in read_rows(connection, _ACTIVE, rubric.id):
                _point_to(connection, rubric.id, row["rubric_version"], now)

    commit(lake, f"register rubric {rubric.id} {rubric.version} as {state}", body)


class OtherText(InputError):
    """Error: another person has stored another text since this one was read."""


def register_draft(lake: Lake, rubric: Rubric, read_digest: str, now: datetime) -> None:
    """Store a version as a draft. read_digest: digest of the draft that the author read, which this text may replace.

    Raises `OtherText` for a draft of another text, `InputError` for a version that is active or retired.
    """
    name = f"{rubric.id} {rubric.version}"

    def refuse(connection: duckdb.DuckDBPyConnection) -> None:
        row = connection.execute(_DIGEST, [rubric.id, rubric.version]).fetchone()
        if row is not None and (state := _state(connection, rubric)) != RubricState.draft:
            raise InputError("version", f"{name}, which is {state} in {lake.name}", "a new version")
        if row is not None and row[0] not in (read_digest, rubric_digest(rubric)):
            raise OtherText("draft", f"another text of {name} in {lake.name}", "the one that was read")

    register_rubric(lake, rubric, RubricState.draft, now, refuse)


def activate_draft(lake: Lake, rubric: Rubric, read_digest: str, now: datetime) -> None:
    """Make a stored draft active. read_digest: of the draft that the reader has seen.

    Raises `OtherText` for a draft of another text, `InputError` for a version that is no draft.
    """
    name = f"{rubric.id} {rubric.version}"

    def refuse(connection: duckdb.DuckDBPyConnection) -> None:
        row = connection.execute(_DIGEST, [rubric.id, rubric.version]).fetchone()
        state = None if row is None else _state(connection, rubric)
        if state != RubricState.draft:
            raise InputError("version", f"{name}, which is {state or 'not'} in {lake.name}", "a draft")
        if row is None or row[0] != read_digest:
            raise OtherText("draft", f"another text of {name} in {lake.name}", "the one that was read")

    register_rubric(lake, rubric, RubricState.active, now, refuse)


def refuse_inactive_rubric(lake: Lake, rubric: Rubric) -> None:
    """Raise `InputError` for a version that is a draft or retired."""
    state = RubricState.active
    with suppress(NoLakeThere), connect(lake, read_only=True) as connection:
        state = _state(connection, rubric)
    if state != RubricState.active:
        name = f"{rubric.id}@{rubric.version}"
        inactive_version = (
            f"{rubric.id} {rubric.version}, which is {'a draft' if state == RubricState.draft else state}"
        )
        raise InputError(
            "rubric", inactive_version, "an active version", f"`gradebook rubric register {name}` activates it"
        )


def refuse_changed_rubric(lake: Lake, rubric: Rubric) -> None:
    """Raise `RubricError`, with the differences, if the lake stores this id and version with another digest."""
    with suppress(NoLakeThere), connect(lake, read_only=True) as connection:
        _is_stored(connection, rubric)


def store_rubric(connection: duckdb.DuckDBPyConnection, rubric: Rubric, now: datetime) -> None:
    """Store a version that a run used, with its criteria and levels, and point its id to it if it is active.

    A version stored already stays unchanged. Raises `RubricError` if its digest differs.
    """
    is_stored = _is_stored(connection, rubric)
    if _state(connection, rubric) == RubricState.active:
        _point_to(connection, rubric.id, rubric.version, now)
    if not is_stored:
        connection.execute(
            "insert into rubrics (rubric_id, rubric_version, digest, body, created_at) values (?, ?, ?, ?, ?)",
            [rubric.id, rubric.version, rubric_digest(rubric), canonical_body(rubric), now],
        )
        connection.register("kept_criteria", criteria_table("", rubric))
        connection.execute(
            "insert into criteria by name select * exclude (run_id, gate_threshold, is_required) from kept_criteria"
        )
    if not is_stored or not connection.execute(_LEVELS, [rubric.id, rubric.version]).fetchall():
        connection.register("kept_levels", levels_table(rubric))
        connection.execute("insert into levels by name from kept_levels")


_DIGEST = "select digest from rubrics where rubric_id = ? and rubric_version = ?"
_LEVELS = "from levels where rubric_id = ? and rubric_version = ? limit 1"  # earlier gradebooks stored none
_USED = "from runs where rubric_id = ? and rubric_version = ? limit 1"
_OPEN_DRAFTS = """
select rubric_version from rubric_states anti join runs using (rubric_id, rubric_version)
where rubric_id = ? and state = 'draft'
"""
_ACTIVE = """
select rubric_version from rubrics
anti join (from rubric_states where state <> 'active') using (rubric_id, rubric_version)
where rubric_id = ?
"""
_STATE = "select state from rubric_states where rubric_id = ? and rubric_version = ?"


def _state(connection: duckdb.DuckDBPyConnection, rubric: Rubric) -> RubricState:
    try:
        row = connection.execute(_STATE, [rubric.id, rubric.version]).fetchone()
    except duckdb.CatalogException:  # a lake of an earlier gradebook
        return RubricState.active
    return RubricState.active if row is None else RubricState(row[0])


def _is_stored(connection: duckdb.DuckDBPyConnection, rubric: Rubric) -> bool:
    try:
        row = connection.execute(
            "select digest, body from rubrics where rubric_id = ? and rubric_version = ?", [rubric.id, rubric.version]
        ).fetchone()
    except duckdb.CatalogException:  # the lake's tables do not exist yet
        return False
    if row is None:
        return False
    if row[0] != rubric_digest(rubric):
        changes = "; ".join(describe_difference(rubric_from_body(row[1]), rubric))
        used = f"{rubric.version} that runs used or that was registered"
        message = f"found another text than the {used} ({changes}), expected a new version"
        raise RubricError((Fault(rubric.id, None, message),))
    return True


def _point_to(connection: duckdb.DuckDBPyConnection, rubric_id: str, version: str, now: datetime) -> None:
    """Point the id to this version, unless it points to a newer one."""
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


GivenRubric = str | Path | Mapping[str, Any] | Rubric


def load_rubric(rubric: GivenRubric, lake: str | None = None) -> Rubric:
    """Load a rubric from a file, by the name of a shipped one, or from a mapping with the keys of a file.

    A `Rubric` made in Python is validated as a file is: its checks, schemas and thresholds too. lake: URI of a lake, in
    which `ID@VERSION` is looked up.

    >>> rubric = load_rubric("json_record")
    >>> [criterion.id for criterion in rubric.criteria][:2]
    ['valid_json', 'required_keys']

    Raises `RubricError` with every fault.
    """
    if isinstance(rubric, str | Path):
        return read_rubric(rubric) if lake is None else find_rubric(str(rubric), find_lake(lake))
    if isinstance(rubric, Rubric):
        canonical_body(rubric)  # raises for values that no file can hold
        _refuse_faults(rubric_values(rubric), rubric.id)
        return rubric
    if isinstance(rubric, Mapping):
        return _refuse_faults(dict(rubric), str(rubric.get("id", "rubric")))
    raise RubricError((Fault("rubric", None, f"found a {type(rubric).__name__}, expected a file, a name or a Rubric"),))


def _refuse_faults(values: dict[str, Any], name: str) -> Rubric:
    validated, faults = validate(values)
    if faults or validated is None:
        raise RubricError(tuple(Fault(name, None, message, rule) for _, message, rule in faults))
    return rubric_from_body(canonical_body(validated))
