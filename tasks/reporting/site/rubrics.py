"""Pages of a lake's rubrics: each version with its criteria and changes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

import duckdb

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.files.load import read_rubric, shipped_rubrics
from gradebook.rubrics.files.semver import required_step
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.tables import Table, table_of
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.system.number_format import score_words

_BODIES = "select rubric_id, rubric_version, body from rubrics"


@dataclass(frozen=True, slots=True)
class RubricVersion:
    """Version of a rubric. row: of the query rubric_store/versions; changes: sentences, largest change first.

    criteria, levels: None if this version of gradebook can't read the rubric. row: None for a shipped rubric.
    """

    version: str
    row: Row | None
    criteria: Table | None
    levels: Table | None
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
    return tuple(_page(rubric_id, [*rows], rubrics) for rubric_id, rows in found)


def shipped_pages(taken: Collection[str]) -> tuple[RubricPage, ...]:
    """Pages of the shipped rubrics, except those whose id the lake stores."""
    rubrics = [read_rubric(name) for name in shipped_rubrics() if name not in taken]
    return tuple(
        RubricPage(each.id, each.name, each.description, (RubricVersion(each.version, None, *_tables(each), ()),))
        for each in rubrics
    )


def _page(rubric_id: str, rows: Sequence[Row], rubrics: dict[tuple[str, str], Rubric | None]) -> RubricPage:
    texts = [rubrics.get((rubric_id, row["rubric_version"])) for row in rows]
    versions = tuple(
        RubricVersion(row["rubric_version"], row, *_tables(text), _changes(older, text))
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


def _tables(rubric: Rubric | None) -> tuple[Table | None, Table | None]:
    """Tables of the criteria and of their levels."""
    if rubric is None:
        return None, None
    whose = f"{rubric.id} {rubric.version}"
    criteria = table_of(
        f"Criteria of {whose}",
        ("Criterion", "Category", "Method", "Question", "Reason for the weight"),
        ("Weight", "Threshold"),
        (
            (
                each.id,
                each.category or "–",
                each.method.type,
                each.description,
                each.rationale or "–",
                "gate" if each.gate else f"{each.own_weight:g}",
                score_words(each.threshold),
            )
            for each in rubric.criteria
        ),
    )
    levels = table_of(
        f"Levels of {whose}",
        ("Criterion", "Level", "Description", "Indicators"),
        ("Score",),
        (
            (
                each.id,
                level.label or level.id,
                level.description or "–",
                "; ".join(level.indicators) or "–",
                f"{level.score:g}",
            )
            for each in rubric.criteria
            for level in each.ranked_levels
        ),
    )
    return criteria, levels
