"""Marts of a published run, rebuilt from the lake and compared with the published ones."""

import os
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.agreement.statements import NO_DECISIONS
from gradebook.tasks.comparing.run_comparison import compare_again
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import query, quoted
from gradebook.tasks.marts.checks import check_marts
from gradebook.tasks.marts.models import mart_names
from gradebook.tasks.marts.sources import paid_judgments
from gradebook.tasks.published.stored_run import (
    KeptRun,
    copy_rows,
    lay_out_case_criteria,
    lay_out_details,
    lay_out_outputs,
    lay_out_verdicts,
    read_kept_run,
)
from gradebook.tasks.runs.run import code_version
from gradebook.tasks.stages.aggregate import built_marts
from gradebook.tasks.stages.compare_marts import MartCheck, check_mart, lay_out_published
from gradebook.tasks.stages.quality import (
    judgment_findings,
    outputs_findings,
    refuse_broken,
    sql_findings,
    verdict_findings,
)
from gradebook.tasks.workspace.folder import RunFolder

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
        head = {"run_id": self.run_id, "made_by": self.made_by, "code_version": self.code_version}
        equal = {"is_equal": self.is_equal} if self.checks else {}
        return head | equal | {"marts": marts, "files": [str(file) for file in self.files]}


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
            run = read_kept_run(connection, lake, run_id)
            shard = _lay_out(connection, run, folder)
            columns = {
                mart: lay_out_published(connection, run, mart, _source(folder, mart))
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
            checks = tuple(check_mart(connection, mart, _source(folder, mart), columns[mart]) for mart in columns)
    return Rebuilt(run_id, str(run.row["code_version"]), code_version(), counts, checks, files)


def _lay_out(connection: duckdb.DuckDBPyConnection, run: KeptRun, folder: RunFolder) -> str:
    """Write the sources of the marts as a run's files; returns the path of the outputs."""
    run_id = run.run_id
    shard, _ = lay_out_outputs(connection, run, folder)
    lay_out_verdicts(connection, _VERDICTS, folder, run_id=run_id)
    lay_out_case_criteria(connection, run, folder)
    lay_out_details(connection, run, folder, ["opinions"])
    copy_rows(connection, _TIMINGS, _source(folder, "timings"), run_id=run_id)
    version = run.row["version"]
    taken = {
        "version": version,
        "before": version - 1,
        "taken": run.settings.get("ratings_version") or version - 1,
        "outputs": [shard],
        "file": run.settings.get("ratings"),
    }
    try:
        try:
            select = query("stages/ratings_of_run", decisions=_DECISIONS)
            copy_rows(connection, select, folder.ratings_file, **taken)
        except duckdb.CatalogException:  # the version is of before there were decisions
            select = query("stages/ratings_of_run", decisions=f"({NO_DECISIONS})")
            copy_rows(connection, select, folder.ratings_file, **taken)
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        found = f"unreadable ratings of version {version}, which published {run.run_id} ({reason})"
        raise InputError("run", found, "a lake with all its versions") from None
    return shard


def _built_marts(
    lake: Lake, run: KeptRun, folder: RunFolder
) -> AbstractContextManager[tuple[duckdb.DuckDBPyConnection, tuple[str, ...]]]:
    def add_costs(connection: duckdb.DuckDBPyConnection) -> None:
        connection.register("source_judgments", paid_judgments(lake, run.run_id))
        timings = quoted(str(_source(folder, "timings")))
        connection.execute(f"create view source_timings as from read_parquet('{timings}')")

    shard = str(folder.path / "shards" / "shard-00000.parquet")
    comparison = compare_again(lake, run.run_id, run.settings.get("baseline_run_id"))
    return built_marts(lake, folder, run.rubric, (shard,), add_costs, comparison)


def _refuse_taken(out: Path, marts: tuple[str, ...]) -> None:
    """Raise `InputError` if a folder already has a file of a mart."""
    # Path raises for a name that is too long.
    if taken := [file for file in _mart_files(out, marts) if os.path.exists(file)]:  # noqa: PTH110
        others = f" and {counted(len(taken) - 1, 'other file')}" if len(taken) > 1 else ""
        raise InputError("--out", f"{taken[0]}{others} already there", "a folder without these files (or --force)")


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


def _source(folder: RunFolder, name: str) -> Path:
    """Additional file in the run's folder: a source of the marts, or the published rows of a mart."""
    return folder.path / "kept" / f"{name}.parquet"
