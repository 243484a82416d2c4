"""Bit-for-bit comparison of a rebuilt mart with the published one, with the first differing rows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import described_tables, query, quoted
from gradebook.tasks.published.stored_run import KeptRun, copy_rows

MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """Row that differs. key: its key columns; published, rebuilt: differing columns, as text, None if it is missing."""

    key: Mapping[str, Any]
    published: Mapping[str, Any] | None
    rebuilt: Mapping[str, Any] | None

    def as_json(self) -> Row:
        return {"key": self.key, "published": self.published, "rebuilt": self.rebuilt}


@dataclass(frozen=True, slots=True)
class MartCheck:
    """Comparison of one mart. row_count: published rows; differing_count: rows of both tables without a match.

    new_columns: columns that the publishing version of gradebook did not have; they are not compared.
    """

    mart: str
    row_count: int
    differing_count: int
    new_columns: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all rows are equal in the published columns."""
        return not self.differing_count

    def as_json(self) -> Row:
        """Its part of what `--json` prints."""
        return {
            "published_count": self.row_count,
            "is_equal": self.is_equal,
            "differing_count": self.differing_count,
            "new_columns": list(self.new_columns),
            "differences": [difference.as_json() for difference in self.differences],
        }


def lay_out_published(
    connection: duckdb.DuckDBPyConnection, run: KeptRun, mart: str, path: Path
) -> frozenset[str] | None:
    """Write the published rows of a mart; returns the table's columns at the time of publication.

    Returns None if the lake no longer has that version. connection: to the lake.
    """
    copy_rows(connection, f"from {mart} where run_id = '{quoted(run.run_id)}'", path)
    try:
        rows = connection.execute(f"describe from {mart} at (version => {run.row['version']})").fetchall()
    except duckdb.CatalogException:  # a later version of gradebook created the table
        return frozenset()
    except duckdb.Error:
        return None
    return frozenset(row[0] for row in rows)


def check_mart(
    connection: duckdb.DuckDBPyConnection, mart: str, published: Path, columns: Collection[str] | None
) -> MartCheck:
    """Compare a mart with its published rows; doubles are compared bit for bit.

    connection: to the database with the mart. published, columns: from `lay_out_published`.
    """
    file = quoted(str(published))
    types = {row[0]: row[1] for row in connection.execute(f"describe from read_parquet('{file}')").fetchall()}
    built = {row[0] for row in connection.execute(f"describe {mart}").fetchall()}
    added = [name for name in types if columns is not None and name not in columns]
    new = tuple(name for name in added if _is_empty(connection, name, file)) if added else ()
    if columns is not None and not columns:
        return MartCheck(mart, 0, 0, new, ())
    names = [name for name in types if name not in new]
    shown = [_shown(name, types[name]) for name in names]
    rebuilt = [text if name in built else f"null as {name}" for name, text in zip(names, shown, strict=True)]
    listed = ", ".join(names)
    columns_of = {"names": listed, "published": ", ".join(shown), "rebuilt": ", ".join(rebuilt)}
    differing = query("stages/differing", mart=mart, **columns_of)
    connection.execute(f"create or replace temp table differing as {differing}", {"file": str(published)})
    counted = f"select (select count(*) from read_parquet('{file}')), coalesce(sum(abs(balance)), 0) from differing"
    ((row_count, differing_count),) = connection.execute(counted).fetchall()
    differences = _pair(connection, mart, names) if differing_count else ()
    return MartCheck(mart, int(row_count), int(differing_count), new, differences)


def _shown(name: str, kind: str) -> str:
    """SQL of a column for the comparison; doubles as text, which differs for every double, even -0.0 and 0.0."""
    return f"{name}::{'varchar' if 'DOUBLE' in kind or 'FLOAT' in kind else kind} as {name}"


def _is_empty(connection: duckdb.DuckDBPyConnection, name: str, file: str) -> bool:
    ((count,),) = connection.execute(f"select count({name}) from read_parquet('{file}')").fetchall()
    return not count


def _pair(connection: duckdb.DuckDBPyConnection, mart: str, names: list[str]) -> tuple[Difference, ...]:
    """First differing rows, paired by key."""
    key = [name for name in described_tables()[mart].get("grain", ()) if name in names] or names
    select = query(
        "stages/differing_pairs",
        is_same=" and ".join(f"published.{name} is not distinct from rebuilt.{name}" for name in key),
        key=", ".join(f"coalesce(published.{name}, rebuilt.{name})" for name in key),
    )
    pairs = connection.execute(select, {"most_count": MOST_SHOWN}).fetchall()
    return tuple(_difference(key, *map(_row_found, pair)) for pair in pairs)


def _row_found(row: Row) -> Row | None:
    """One side of a pair; None if the join found no row for it."""
    return None if row.pop("balance") is None else row


def _difference(key: list[str], published: Row | None, rebuilt: Row | None) -> Difference:
    one = published or rebuilt or {}
    named = {name: one[name] for name in key}
    if published is None or rebuilt is None:
        return Difference(named, published, rebuilt)
    differing = [name for name in published if published[name] != rebuilt[name]]
    return Difference(named, *({name: row[name] for name in differing} for row in (published, rebuilt)))
