"""A run opened, or looked at as a dry run: its request checked, its folder locked, its row in the lake written."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.digest import rubric_digest
from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.tasks.comparing.baseline import Baseline, stored_baseline
from gradebook.tasks.datasets.discovery import digest_files
from gradebook.tasks.judging.settings.panels import verdict_digest
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect, lake_exists, prepare_lake, refuse_unusable
from gradebook.tasks.ledger.recordings import write_recording
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.ratings.run_ratings import ratings_version
from gradebook.tasks.runs.function_settings import runnable_functions
from gradebook.tasks.runs.request import EvaluationRequest, Use, json_values
from gradebook.tasks.runs.resume_command import keep_words
from gradebook.tasks.runs.run import Run, code_version
from gradebook.tasks.stages.check_request import CheckedRequest, check_request
from gradebook.tasks.stages.quality import read_findings
from gradebook.tasks.system.events import run_span
from gradebook.tasks.system.files import translate_full_disk, write_text
from gradebook.tasks.system.logs import begin_logging
from gradebook.tasks.system.number_format import counted
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import claim_run, created_at, find_run

# The sum of what is known would pass for the whole.
_SPENT = """
select case when count(*) = count(cost_usd) then coalesce(sum(cost_usd), 0.0) end from judgments where run_id = ?
"""


@contextmanager
def opened_run(request: EvaluationRequest, now: datetime) -> Iterator[Run]:
    """Read and check everything the request names, then hold the run's folder while the block runs.

    A repeated request goes on with the run that it began before and did not finish; a deadline that had passed by now
    is none, so that the same command may go on after it. What a published run worked with is removed. Raises
    `InputError` for whatever is wrong with the request; nothing is written then.
    """
    begin_logging()
    checked = check_request(request)
    if request.deadline is not None and request.deadline <= now:
        request = replace(request, deadline=None)
    digest = digest_files(checked.files)
    prepare_lake(checked.lake)

    def run_in(folder: RunFolder) -> Run:
        return _run_of(request, checked, digest, folder, created_at(folder))

    with claimed_run(checked.lake, _fingerprint(request, checked, digest), request.run_id, now, run_in) as run:
        yield run


@contextmanager
def previewed_run(request: EvaluationRequest, now: datetime) -> Iterator[Run]:
    """As `opened_run`, in a temporary folder: the lake and its folders stay as they are.

    Raises `InputError` as `opened_run` and `is_published` do, in the same order.
    """
    checked = check_request(request)
    digest = digest_files(checked.files)
    refuse_unusable(checked.lake)
    run_id = find_run(checked.lake.root / "runs", _fingerprint(request, checked, digest), request.run_id)
    with tempfile.TemporaryDirectory(prefix="gradebook-plan-") as temporary:
        folder = RunFolder(Path(temporary) / (run_id or Path(temporary).name))
        folder.path.mkdir(exist_ok=True)
        run = _run_of(request, checked, digest, folder, now)
        if run_id is not None and lake_exists(run.lake):
            is_published(run)
        yield run


@contextmanager
def claimed_run(
    lake: Lake, fingerprint: str, run_id: str | None, now: datetime, run_in: Callable[[RunFolder], Run]
) -> Iterator[Run]:
    """Lock a run's folder while the block runs; the working files of a run that is published then are removed.

    run_in: the run that works in a folder. Raises `InputError` as `claim_run`.
    """
    with translate_full_disk(lake.name), claim_run(lake.root / "runs", fingerprint, run_id, now) as claim:
        yield run_in(claim.folder)
        if claim.folder.published_file.exists():
            claim.folder.tidy()


def _run_of(
    request: EvaluationRequest, checked: CheckedRequest, dataset_digest: str, folder: RunFolder, created: datetime
) -> Run:
    return Run(
        request=request,
        lake=checked.lake,
        folder=folder,
        rubric=checked.rubric,
        rubric_digest=rubric_digest(checked.rubric),
        judge=checked.judge,
        files=checked.files,
        functions=checked.functions,
        dataset_digest=dataset_digest,
        created_at=created,
    )


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Keep the run's row in the lake: running while the block runs; failed, and why, when it raises."""
    with translate_full_disk(run.lake.name):
        _write_row(run, "running", None)
        keep_words(run.folder, run.request)
    try:
        with translate_full_disk(run.lake.name), run_span(run.run_id, _names(run)):
            yield
    except BaseException as error:
        reason = str(error) if isinstance(error, GradebookError) else f"{type(error).__name__}: {error}"
        # Where the lake itself is what failed, its row can't be written: the first error is the one to tell.
        with suppress(GradebookError, duckdb.Error, OSError):
            _write_failure(run, reason[:2_000])
            if run.request.record is not None:
                write_recording(run.lake, run.folder, Path(run.request.record))
        raise


def _names(run: Run) -> dict[str, object]:
    """What a run is of, for those who watch it."""
    return {
        "rubric_id": run.rubric.id,
        "rubric_version": run.rubric.version,
        "judge": run.judge.judge if run.judge else None,
        "trigger": run.request.trigger,
        "code_version": code_version(),
    }


def is_published(run: Run) -> bool:
    """Whether the lake holds this run already.

    Raises `InputError` where it holds another evaluation of that id, or one beside another baseline.
    """
    query = "select dataset_digest, rubric_digest, settings from runs where run_id = ? and status = 'published'"
    with connect(run.lake, read_only=True) as connection:
        row = connection.execute(query, [run.run_id]).fetchone()
    if row is None:
        return False
    if row[:2] != (run.dataset_digest, run.rubric_digest):
        raise InputError(
            f"--run-id: found {run.run_id}, which published other outputs or another rubric; expected a new id"
        )
    settings = json.loads(row[2] or "{}")
    if settings.get("sample") != run.request.sample and not run.taken_over:
        published, asked = _cases_words(settings.get("sample")), _cases_words(run.request.sample)
        raise InputError("--run-id", f"{run.run_id}, which published {published}", f"a new id for {asked}")
    for option, wanted in (("baseline", run.request.baseline), ("fail_if", run.request.fail_if)):
        if wanted is not None and wanted != settings.get(option):
            raise InputError(
                f"--{option.replace('_', '-')}: found {wanted!r}, but {run.run_id} is published without it; expected "
                "a new run, or `gradebook compare`, which compares published ones"
            )
    return True


def _cases_words(sample: int | None) -> str:
    return "all cases" if sample is None else f"a sample of {counted(sample, 'case')}"


def run_row(run: Run, status: str, reason: str | None) -> dict[str, object]:
    """The columns of the run's row that do not depend on what came out."""
    request = run.request
    baseline = stored_baseline(run.folder) if request.baseline else Baseline()
    settings = json_values(request, Use.SETTINGS) | {
        "judge": run.judge.identity if run.judge else None,  # by which `gradebook ledger verify` works keys out anew
        "baseline_run_id": baseline.run_id,
        "baseline_fault": baseline.fault,
        "ratings_version": ratings_version(run.folder.ratings_file),
        "suite": request.suite,  # by these two `latest` finds the nightly run before
        "night": None if request.night is None else request.night.isoformat(),
        "functions": sorted(set(runnable_functions(run.rubric, run.functions).values())),
    }
    return {
        "run_id": run.run_id,
        "created_at": run.created_at,
        "finished_at": None if status == "running" else datetime.now(UTC),
        "status": status,
        "reason": reason,
        "trigger": request.trigger,
        "dataset": request.dataset or request.outputs,
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
        **run.taken_over,
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


def _write_row(run: Run, status: str, reason: str | None) -> None:
    row = run_row(run, status, reason)
    commit(run.lake, f"run {run.run_id} {status}", lambda connection, _version: replace_row(connection, row))


def _write_failure(run: Run, reason: str) -> None:
    """The row of a failed run says why, what was spent (null: unknown), and which expectations did not hold."""
    row, findings = run_row(run, "failed", reason), read_findings(run.folder)

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        spent = connection.execute(_SPENT, [run.run_id]).fetchone()
        replace_row(connection, {**row, "cost_usd": spent[0] if spent else None})
        replace_findings(connection, run.run_id, findings)

    commit(run.lake, f"run {run.run_id} failed", body)


def replace_findings(connection: duckdb.DuckDBPyConnection, run_id: str, findings: pa.Table) -> None:
    """Put the data-quality findings of a run in the place of those of an earlier, failed try."""
    connection.execute("delete from quality_results where run_id = ?", [run_id])
    connection.register("findings", findings)
    connection.execute("insert into quality_results by name from findings")


def _fingerprint(request: EvaluationRequest, checked: CheckedRequest, dataset_digest: str) -> str:
    """What makes two requests one run.

    The budget is not in it: a run that reached it goes on with a larger one. Nor is the baseline with its rule: what a
    run is compared with changes no judgment.
    """
    by_content = {
        "outputs": dataset_digest,
        "rubric": rubric_digest(checked.rubric),
        "judge": verdict_digest(checked.judge) if checked.judge else None,
        "ratings": digest_files((Path(request.ratings),)) if request.ratings else None,
        "allow_functions": runnable_functions(checked.rubric, checked.functions),
    }
    set_by_flows = {"checkpoint": asdict(request.checkpoint) if request.checkpoint else None}
    parts = json_values(request, Use.FINGERPRINT) | by_content | set_by_flows | {"code_version": code_version()}
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def keep_planned(folder: RunFolder, planned: RunPlan, verdict_count: int) -> None:
    """Keep how many verdicts the run is to have, how many requests they need, and what those may cost."""
    kept = {"verdict_count": verdict_count, "request_count": planned.request_count, "cost_usd": planned.cost_usd}
    write_text(folder.plan_summary_file, json.dumps(kept))
