"""A run: what is evaluated by what, where it works, and its row in the lake from the first to the last minute."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import duckdb
import pyarrow as pa

from rubrics.errors import Fault, GradebookError, InputError, JudgeSettingsError, RubricError
from rubrics.library import read_rubric
from rubrics.model import Rubric
from rubrics.versions import describe_difference, rubric_digest, rubric_from_body
from tasks.judging.prices import find_price
from tasks.judging.replay import check_replies
from tasks.judging.settings import JudgeSettings, ReplaySettings, read_judge
from tasks.lake import DEFAULT_LAKE, Lake, commit, connect, find_lake, prepare_lake
from tasks.quality import read_findings
from tasks.rating_files import read_ratings
from tasks.reading import dataset_files, digest_files
from tasks.workspace import RunFolder, claim_run, created_at

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What a person or a schedule asks for; the words of the command line."""

    outputs: str
    rubric: str
    judge: str | None = None
    ratings: str | None = None
    lake: str = DEFAULT_LAKE
    data: str | None = None
    run_id: str | None = None
    budget_usd: float | None = None
    max_bad_rate: float = 0.01
    column_map: Mapping[str, str] = field(default_factory=dict)
    trigger: str = "manual"


@dataclass(frozen=True, slots=True)
class Run:
    """One rubric version applied to one set of outputs."""

    request: EvaluationRequest
    lake: Lake
    folder: RunFolder
    rubric: Rubric
    rubric_digest: str
    judge: JudgeSettings | ReplaySettings | None
    files: tuple[Path, ...]
    dataset_digest: str
    created_at: datetime

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.folder.run_id


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """What a request names, read and found to be right."""

    rubric: Rubric
    judge: JudgeSettings | ReplaySettings | None
    files: tuple[Path, ...]
    lake: Lake


def check_request(request: EvaluationRequest) -> CheckedRequest:
    """Read everything that a request names, except the outputs themselves. Raises `InputError`; writes nothing."""
    _refuse_bad_values(request)
    rubric = read_rubric(request.rubric)
    judge = read_judge(request.judge, os.environ) if request.judge else None
    if isinstance(judge, ReplaySettings):
        check_replies(judge.path, rubric.criteria)
    if request.ratings:
        read_ratings(Path(request.ratings), rubric)
    files = dataset_files(request.outputs)
    lake = find_lake(request.lake, request.data)
    refuse_changed_rubric(lake, rubric)
    if request.budget_usd is not None and isinstance(judge, JudgeSettings) and find_price(judge) is None:
        raise JudgeSettingsError(
            f"--budget-usd: found no price of {judge.model}, expected one: give `prices` in a judge file, or no budget"
        )
    return CheckedRequest(rubric, judge, files, lake)


def _refuse_bad_values(request: EvaluationRequest) -> None:
    for option, value in (("--judge", request.judge), ("--ratings", request.ratings)):
        if value is not None and not value.strip():  # a variable of the shell that is not set
            raise InputError(f"{option}: found an empty text, expected a value, or no {option} at all")
    if not 0 <= request.max_bad_rate <= 1:
        raise InputError(f"--max-bad-rate: found {request.max_bad_rate:g}, expected a share of 0 to 1")
    if request.budget_usd is not None and not 0 <= request.budget_usd < float("inf"):
        raise InputError(f"--budget-usd: found {request.budget_usd:g}, expected dollars, 0 or more")
    if request.run_id is not None and not RUN_ID.fullmatch(request.run_id):
        raise InputError(f"--run-id: found {request.run_id!r}, expected up to 80 letters, digits, - and _")


@contextmanager
def opened_run(request: EvaluationRequest, now: datetime) -> Iterator[Run]:
    """Read and check everything the request names, then hold the run's folder while the block runs.

    A repeated request goes on with the run that it began before and did not finish. Raises `InputError` for whatever
    is wrong with the request; nothing is written then.
    """
    checked = check_request(request)
    dataset_digest = digest_files(checked.files)
    prepare_lake(checked.lake)
    fingerprint = _fingerprint(request, checked, dataset_digest)
    with claim_run(checked.lake.root / "runs", fingerprint, request.run_id, now) as claim:
        yield Run(
            request=request,
            lake=checked.lake,
            folder=claim.folder,
            rubric=checked.rubric,
            rubric_digest=rubric_digest(checked.rubric),
            judge=checked.judge,
            files=checked.files,
            dataset_digest=dataset_digest,
            created_at=created_at(claim.folder),
        )


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Keep the run's row in the lake: running while the block runs; failed, and why, when it raises."""
    _write_row(run, "running", None)
    try:
        yield
    except BaseException as error:
        reason = str(error) if isinstance(error, GradebookError) else f"{type(error).__name__}: {error}"
        # Where the lake itself is what failed, its row can't be written: the first error is the one to tell.
        with suppress(GradebookError, duckdb.Error):
            _write_failure(run, reason[:2_000])
        raise


def is_published(run: Run) -> bool:
    """Whether the lake holds this run already. Raises `InputError` where it holds another evaluation of that id."""
    query = "select dataset_digest, rubric_digest from runs where run_id = ? and status = 'published'"
    with connect(run.lake, read_only=True) as connection:
        row = connection.execute(query, [run.run_id]).fetchone()
    if row is not None and row != (run.dataset_digest, run.rubric_digest):
        raise InputError(
            f"--run-id: found {run.run_id}, which published other outputs or another rubric; expected a new id"
        )
    return row is not None


def run_row(run: Run, status: str, reason: str | None) -> dict[str, object]:
    """The columns of the run's row that do not depend on what came out."""
    request = run.request
    settings = {
        "column_map": dict(request.column_map),
        "max_bad_rate": request.max_bad_rate,
        "budget_usd": request.budget_usd,
        "ratings": request.ratings,
    }
    return {
        "run_id": run.run_id,
        "created_at": run.created_at,
        "finished_at": None if status == "running" else datetime.now(UTC),
        "status": status,
        "reason": reason,
        "trigger": request.trigger,
        "dataset": request.outputs,
        "dataset_digest": run.dataset_digest,
        "rubric_id": run.rubric.id,
        "rubric_version": run.rubric.version,
        "rubric_digest": run.rubric_digest,
        "judge": run.judge.judge if run.judge else None,
        "settings": json.dumps(settings),
        "notes": [],
        "code_version": code_version(),
        "output_count": None,
        "version": None,
        "cost_usd": None,
    }


def replace_row(connection: duckdb.DuckDBPyConnection, row: Mapping[str, object]) -> None:
    """Put the row of a run in the place of its earlier one; a published one is never touched, nor doubled."""
    earlier = connection.execute("select status from runs where run_id = ?", [row["run_id"]]).fetchall()
    if ("published",) in earlier:
        return
    connection.execute("delete from runs where run_id = ?", [row["run_id"]])
    names = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    connection.execute(f"insert into runs ({names}) values ({marks})", list(row.values()))


def refuse_changed_rubric(lake: Lake, rubric: Rubric) -> None:
    """Raise `RubricError` where the lake holds this id and version with another digest; the difference is shown."""
    if not lake.exists:
        return
    with connect(lake, read_only=True) as connection:
        refuse_changed_rubric_in(connection, rubric)


def refuse_changed_rubric_in(connection: duckdb.DuckDBPyConnection, rubric: Rubric) -> bool:
    """The same within a connection. Returns whether the lake holds this version already."""
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


def code_version() -> str:
    """The version of gradebook that runs."""
    return metadata.version("gradebook")


def _write_row(run: Run, status: str, reason: str | None) -> None:
    row = run_row(run, status, reason)
    commit(run.lake, f"run {run.run_id} {status}", lambda connection, _version: replace_row(connection, row))


def _write_failure(run: Run, reason: str) -> None:
    """The row of a failed run says why, what was spent, and which expectations did not hold."""
    row, findings = run_row(run, "failed", reason), read_findings(run.folder)

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        spent = connection.execute("select sum(cost_usd) from judgments where run_id = ?", [run.run_id]).fetchone()
        replace_row(connection, {**row, "cost_usd": spent[0] if spent else None})
        replace_findings(connection, run.run_id, findings)

    commit(run.lake, f"run {run.run_id} failed", body)


def replace_findings(connection: duckdb.DuckDBPyConnection, run_id: str, findings: pa.Table) -> None:
    """Put the data-quality findings of a run in the place of those of an earlier, failed try."""
    connection.execute("delete from quality_results where run_id = ?", [run_id])
    connection.register("findings", findings)
    connection.execute("insert into quality_results by name from findings")


def _fingerprint(request: EvaluationRequest, checked: CheckedRequest, dataset_digest: str) -> str:
    """What makes two requests one run. The budget is not in it: a run that reached it goes on with a larger one."""
    parts = {
        "dataset": dataset_digest,
        "rubric": rubric_digest(checked.rubric),
        "judge": checked.judge.judge_digest if checked.judge else None,
        "ratings": digest_files((Path(request.ratings),)) if request.ratings else None,
        "column_map": dict(request.column_map),
        "max_bad_rate": request.max_bad_rate,
        "code_version": code_version(),
    }
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()
