"""Pages of a lake's rubrics: each version with its criteria and changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import duckdb

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.files.semver import required_step
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.system.number_format import score_words

_BODIES = "select rubric_id, rubric_version, body from rubrics"
_CRITERIA = """
select criterion_id, category, method, description, is_gate, weight, threshold
from criteria where rubric_id = ? and rubric_version = ? order by position
"""
_LEVELS = """
select criterion_id, string_agg(level_id || ' ' || score, ', ' order by position) as levels
from levels where rubric_id = ? and rubric_version = ? group by criterion_id
"""


@dataclass(frozen=True, slots=True)
class RubricVersion:
    """Version of a rubric. row: of the query rubric_store/versions; changes: sentences, largest change first."""

    row: Row
    criteria: Table
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RubricPage:
    """Rubric with its versions, newest first."""

    rubric_id: str
    name: str | None
    description: str | None
    versions: tuple[RubricVersion, ...]

    @property
    def page(self) -> str:
        """Path of the page, relative to the home page."""
        return f"rubrics/{self.rubric_id}.html"


def read_rubric_pages(connection: duckdb.DuckDBPyConnection) -> tuple[RubricPage, ...]:
    """Read all rubrics of a lake, sorted by id."""
    rubrics = {(row["rubric_id"], row["rubric_version"]): _readable(row) for row in read_rows(connection, _BODIES)}
    found = groupby(read_rows(connection, query("rubric_store/versions")), lambda row: str(row["rubric_id"]))
    return tuple(_page(connection, rubric_id, [*rows], rubrics) for rubric_id, rows in found)


def _page(
    connection: duckdb.DuckDBPyConnection,
    rubric_id: str,
    rows: Sequence[Row],
    rubrics: dict[tuple[str, str], Rubric | None],
) -> RubricPage:
    texts = [rubrics.get((rubric_id, row["rubric_version"])) for row in rows]
    versions = tuple(
        RubricVersion(row, _criteria(connection, row), _changes(older, text))
        for row, text, older in zip(rows, texts, [*texts[1:], None], strict=True)
    )
    newest = texts[0]
    name, description = (None, None) if newest is None else (newest.name, newest.description)
    return RubricPage(rubric_id, name, description, versions)


def _readable(row: Row) -> Rubric | None:
    """Rubric of a row; None if this version of gradebook can't read it."""
    try:
        return None if row["body"] is None else rubric_from_body(row["body"])
    except RubricError:
        return None


def _changes(older: Rubric | None, newer: Rubric | None) -> tuple[str, ...]:
    if older is None or newer is None:
        return ()
    return tuple(f"{step}: {words}" for step, words in required_step(older, newer).reasons)


def _criteria(connection: duckdb.DuckDBPyConnection, version: Row) -> Table:
    named = version["rubric_id"], version["rubric_version"]
    levels = {row["criterion_id"]: row["levels"] for row in read_rows(connection, _LEVELS, *named)}
    return table_of(
        f"Criteria of {named[0]} {named[1]}",
        ("Criterion", "Category", "Method", "Question", "Levels and scores"),
        ("Weight", "Threshold"),
        [_cells(row, levels) for row in read_rows(connection, _CRITERIA, *named)],
    )


def _cells(row: Row, levels: dict[str, str]) -> tuple[str, ...]:
    return (
        row["criterion_id"],
        row["category"] or "–",
        row["method"],
        row["description"] or "",
        levels.get(row["criterion_id"], ""),
        "gate" if row["is_gate"] else f"{row['weight']:g}",
        score_words(row["threshold"]),
    )
