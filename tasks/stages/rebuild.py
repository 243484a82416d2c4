"""Marts of a published run, rebuilt from the lake and compared bit for bit with the published ones."""

import os
import tempfile
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.agreement.mart import NO_DECISIONS
from gradebook.tasks.comparing.run_comparison import compare_again
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import declared_tables, query, quoted
from gradebook.tasks.marts.checks import check_marts
from gradebook.tasks.marts.models import mart_names
from gradebook.tasks.marts.sources import paid_judgments
from gradebook.tasks.published.stored_run import (
    StoredRun,
    copy_rows,
    read_stored_run,
    write_run_case_criteria,
    write_run_details,
    write_run_outputs,
    write_run_verdicts,
)
from gradebook.tasks.runs.run import code_version
from gradebook.tasks.stages.aggregate import built_marts
from gradebook.tasks.stages.quality import (
    judgment_findings,
    outputs_findings,
    refuse_broken,
    sql_findings,
    verdict_findings,
)
from gradebook.tasks.workspace.folder import RunFolder

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
        """Part of the JSON object printed by `--json`."""
        return {
            "published_count": self.row_count,
            "is_equal": self.is_equal,
            "differing_count": self.differing_count,
            "new_columns": list(self.new_columns),
            "differences": [difference.as_json() for difference in self.differences],
        }


def write_published_rows(
    connection: duckdb.DuckDBPyConnection, run: StoredRun, mart: str, path: Path
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

    connection: to the database with the mart. published, columns: from `write_published_rows`.
    """
    file = quoted(str(published))
    types = {row[0]: row[1] for row in connection.execute(f"describe from read_parquet('{file}')").fetchall()}
    built = {row[0] for row in connection.execute(f"describe {mart}").fetchall()}
    added = [name for name in types if columns is not None and name not in columns]
    new_columns = tuple(name for name in added if _is_empty(connection, name, file)) if added else ()
    if columns is not None and not columns:
        return MartCheck(mart, 0, 0, new_columns, ())
    names = [name for name in types if name not in new_columns]
    selects = [_comparable_column(name, types[name]) for name in names]
    rebuilt = [text if name in built else f"null as {name}" for name, text in zip(names, selects, strict=True)]
    listed = ", ".join(names)
    columns_of = {"names": listed, "published": ", ".join(selects), "rebuilt": ", ".join(rebuilt)}
    differing = query("stages/differing", mart=mart, **columns_of)
    connection.execute(f"create or replace temp table differing as {differing}", {"file": str(published)})
    count_select = (
        f"select (select count(*) from read_parquet('{file}')), coalesce(sum(abs(balance)), 0) from differing"
    )
    ((row_count, differing_count),) = connection.execute(count_select).fetchall()
    differences = _paired_differences(connection, mart, names) if differing_count else ()
    return MartCheck(mart, int(row_count), int(differing_count), new_columns, differences)


def _comparable_column(name: str, kind: str) -> str:
    """SQL of a column for the comparison; doubles as text, which differs for every double, even -0.0 and 0.0."""
    return f"{name}::{'varchar' if 'DOUBLE' in kind or 'FLOAT' in kind else kind} as {name}"


def _is_empty(connection: duckdb.DuckDBPyConnection, name: str, file: str) -> bool:
    ((count,),) = connection.execute(f"select count({name}) from read_parquet('{file}')").fetchall()
    return not count


def _paired_differences(connection: duckdb.DuckDBPyConnection, mart: str, names: list[str]) -> tuple[Difference, ...]:
    """First differing rows, paired by key."""
    key = [name for name in declared_tables()[mart].grain if name in names] or names
    select = query(
        "stages/differing_pairs",
        is_same=" and ".join(f"published.{name} is not distinct from rebuilt.{name}" for name in key),
        key=", ".join(f"coalesce(published.{name}, rebuilt.{name})" for name in key),
    )
    pairs = connection.execute(select, {"most_count": MOST_SHOWN}).fetchall()
    return tuple(_difference(key, *map(_row_or_none, pair)) for pair in pairs)


def _row_or_none(row: Row) -> Row | None:
    """One side of a pair; None if the join has no row for it."""
    return None if row.pop("balance") is None else row


def _difference(key: list[str], published: Row | None, rebuilt: Row | None) -> Difference:
    row = published or rebuilt or {}
    key_values = {name: row[name] for name in key}
    if published is None or rebuilt is None:
        return Difference(key_values, published, rebuilt)
    differing = [name for name in published if published[name] != rebuilt[name]]
    return Difference(key_values, *({name: row[name] for name in differing} for row in (published, rebuilt)))


# Times can't be measured again, so they are taken from the published rows.
_TIMINGS = """
select stage, criterion_id, wall_s, cpu_s, row_count, replayed_count, saved_usd from stage_costs where run_id = $run_id
"""
_DECISIONS = "(select *, rowid as line from adjudications at (version => $taken))"
_VERDICTS = """
select output_id, criterion_id, method, status, level_id, score, reason from verdicts where run_id = $run_id
"""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Rebuilt marts. made_by, code_version: version of gradebook that published the run, and the current one.

    marts: names and row counts; checks: empty unless the marts were compared; files: written files.
    """

    run_id: str
    made_by: str
    code_version: str
    marts: tuple[tuple[str, int], ...]
    checks: tuple[MartCheck, ...]
    files: tuple[Path, ...]

    @property
    def is_equal(self) -> bool:
        """Whether every compared mart equals the published one."""
        return all(check.is_equal for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """JSON object printed by `--json`."""
        checks = {check.mart: check.as_json() for check in self.checks}
        marts = [{"mart": mart, "row_count": count} | checks.get(mart, {}) for mart, count in self.marts]
        identity = {"run_id": self.run_id, "made_by": self.made_by, "code_version": self.code_version}
        equal = {"is_equal": self.is_equal} if self.checks else {}
        return identity | equal | {"marts": marts, "files": [str(file) for file in self.files]}


def rebuild_run(
    lake: Lake, run_id: str, *, out: Path | None = None, is_forced: bool = False, is_checked: bool = False
) -> Rebuilt:
    """Rebuild a published run's marts from the lake, without writing to the lake.

    out: folder for one Parquet file per mart; is_forced: replace existing files. is_checked: compare each mart with its
    published rows, bit for bit. Raises `InputError` for an unknown run, and if the folder can't be written or already
    has such a file; `QualityNotMet` if a check in SQL finds a row, before a file is written.
    """
    if out is not None and not is_forced:
        _refuse_taken(out, mart_names())
    with tempfile.TemporaryDirectory(prefix="gradebook-rebuild-") as name:
        folder = RunFolder.below(Path(name), run_id)
        with connect_up_to_date(lake) as connection:
            run = read_stored_run(connection, lake, run_id)
            shard = _lay_out(connection, run, folder)
            columns = {
                mart: write_published_rows(connection, run, mart, _extra_file(folder, mart))
                for mart in (mart_names() if is_checked else ())
            }
        findings = [
            *outputs_findings(run_id, Path(shard), 0),
            *verdict_findings(folder, 0),
            *judgment_findings(lake, run_id),
        ]
        refuse_broken(findings)
        with _built_marts(lake, run, folder) as (connection, marts):
            refuse_broken(sql_findings(run_id, "marts", check_marts(connection)))
            counts = tuple((mart, _count_rows(connection, mart)) for mart in marts)
            files = () if out is None else _write_marts(connection, marts, out)
            checks = tuple(check_mart(connection, mart, _extra_file(folder, mart), columns[mart]) for mart in columns)
    return Rebuilt(run_id, str(run.row["code_version"]), code_version(), counts, checks, files)


def _lay_out(connection: duckdb.DuckDBPyConnection, run: StoredRun, folder: RunFolder) -> str:
    """Write the sources of the marts as a run's files; returns the path of the outputs."""
    run_id = run.run_id
    shard, _ = write_run_outputs(connection, run, folder)
    write_run_verdicts(connection, _VERDICTS, folder, run_id=run_id)
    write_run_case_criteria(connection, run, folder)
    write_run_details(connection, run, folder, ["opinions"])
    copy_rows(connection, _TIMINGS, _extra_file(folder, "timings"), run_id=run_id)
    version = run.row["version"]
    parameters = {
        "version": version,
        "before": version - 1,
        "taken": run.settings.get("ratings_version") or version - 1,
        "outputs": [shard],
        "file": run.settings.get("ratings"),
    }
    try:
        try:
            select = query("stages/ratings_of_run", decisions=_DECISIONS)
            copy_rows(connection, select, folder.ratings_file, **parameters)
        except duckdb.CatalogException:  # the version is older than the table of decisions
            select = query("stages/ratings_of_run", decisions=f"({NO_DECISIONS})")
            copy_rows(connection, select, folder.ratings_file, **parameters)
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        fault = f"unreadable ratings of version {version}, which published {run.run_id} ({reason})"
        raise InputError("run", fault, "a lake with all its versions") from None
    return shard


def _built_marts(
    lake: Lake, run: StoredRun, folder: RunFolder
) -> AbstractContextManager[tuple[duckdb.DuckDBPyConnection, tuple[str, ...]]]:
    def add_costs(connection: duckdb.DuckDBPyConnection) -> None:
        connection.register("source_judgments", paid_judgments(lake, run.run_id))
        timings = quoted(str(_extra_file(folder, "timings")))
        connection.execute(f"create view source_timings as from read_parquet('{timings}')")

    shard = str(folder.path / "shards" / "shard-00000.parquet")
    comparison = compare_again(lake, run.run_id, run.settings.get("baseline_run_id"))
    return built_marts(lake, folder, run.rubric, (shard,), add_costs, comparison)


def _refuse_taken(out: Path, marts: tuple[str, ...]) -> None:
    """Raise `InputError` if a folder already has a file of a mart."""
    # Path raises for a name that is too long.
    if existing := [file for file in _mart_files(out, marts) if os.path.exists(file)]:  # noqa: PTH110
        more = f" and {counted(len(existing) - 1, 'other file')}" if len(existing) > 1 else ""
        raise InputError("--out", f"{existing[0]}{more} already there", "a folder without these files (or --force)")


def _write_marts(connection: duckdb.DuckDBPyConnection, marts: tuple[str, ...], out: Path) -> tuple[Path, ...]:
    files = _mart_files(out, marts)
    try:
        for mart, file in zip(marts, files, strict=True):
            copy_rows(connection, f"from {mart}", file)
    except (OSError, duckdb.IOException) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
        raise InputError("--out", f"can't write {out}: {reason}") from error
    return files


def _mart_files(out: Path, marts: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(out / f"{mart}.parquet" for mart in marts)


def _count_rows(connection: duckdb.DuckDBPyConnection, mart: str) -> int:
    ((count,),) = connection.execute(f"select count(*) from {mart}").fetchall()
    return int(count)


def _extra_file(folder: RunFolder, name: str) -> Path:
    """Additional file in the run's folder: a source of the marts, or the published rows of a mart."""
    return folder.path / "kept" / f"{name}.parquet"
