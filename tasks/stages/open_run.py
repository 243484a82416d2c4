"""Opening of a run: check the request, lock the folder, write the row; and a dry run, which leaves no files."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.errors import GradebookError, InputError, MissingKey, RefusedSetting
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.statistics.rules import AUTO
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.comparing.baseline import Baseline, stored_baseline
from gradebook.tasks.comparing.stopping import stored_stopping
from gradebook.tasks.datasets.discovery import digest_files
from gradebook.tasks.judging.budget import read_budget
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect, lake_exists, prepare_lake, refuse_unusable
from gradebook.tasks.ledger.recordings import write_recording
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.ratings.run_ratings import ratings_version
from gradebook.tasks.runs.function_settings import runnable_functions
from gradebook.tasks.runs.request import EvaluationRequest, Use, json_values
from gradebook.tasks.runs.resume_command import in_suites_file, store_command
from gradebook.tasks.runs.run import Run, code_version
from gradebook.tasks.stages.check_request import CheckedRequest, check_request
from gradebook.tasks.stages.quality import read_findings
from gradebook.tasks.system.events import run_span
from gradebook.tasks.system.files import translate_full_disk, write_text
from gradebook.tasks.system.logs import begin_logging
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import claim_run, created_at, find_run
from gradebook.tasks.workspace.repair import drop_unreadable
from gradebook.tasks.workspace.timings import append_start

# Null if any cost is unknown: the sum of the known costs would look like the total.
_SPENT = """
select case when count(*) = count(cost_usd) then coalesce(sum(cost_usd), 0.0) end from judgments where run_id = ?
"""


@contextmanager
def opened_run(request: EvaluationRequest, now: datetime, checked: CheckedRequest | None = None) -> Iterator[Run]:
    """Check the request, then lock the run's folder while the block runs.

    A repeated request resumes its unfinished run. A deadline in the past is ignored, so that the same command can
    resume after it. Working files of a published run are deleted. checked: the request, if it was just checked. Raises
    `InputError` for a wrong request, before anything is written.
    """
    begin_logging()
    checked = checked or check_request(request)
    if request.deadline is not None and request.deadline <= now:
        request = replace(request, deadline=None)
    digest = digest_files(checked.files)
    prepare_lake(checked.lake)

    def run_in(folder: RunFolder) -> Run:
        return _make_run(request, checked, digest, folder, created_at(folder))

    with claimed_run(checked.lake, _fingerprint(request, checked, digest), request.run_id, now, run_in) as run:
        yield run


@contextmanager
def previewed_run(request: EvaluationRequest, now: datetime) -> Iterator[Run]:
    """Check a request as `opened_run`, in a temporary folder and without changes to the lake.

    Raises `InputError` as `opened_run` and `is_published` do, in the same order.
    """
    checked = check_request(request)
    digest = digest_files(checked.files)
    refuse_unusable(checked.lake)
    run_id = find_run(checked.lake.root / "runs", _fingerprint(request, checked, digest), request.run_id)
    with tempfile.TemporaryDirectory(prefix="gradebook-plan-") as temporary:
        folder = RunFolder(Path(temporary) / (run_id or Path(temporary).name))
        folder.path.mkdir(exist_ok=True)
        if run_id is not None:
            copy_rule(RunFolder(checked.lake.root / "runs" / run_id), folder)
        run = _make_run(request, checked, digest, folder, now)
        if run_id is not None and lake_exists(run.lake):
            is_published(run)
        yield run


def copy_rule(begun: RunFolder, folder: RunFolder) -> None:
    """Copy the rule that `--require auto` chose for a run that has begun."""
    with suppress(FileNotFoundError):
        shutil.copyfile(begun.rule_file, folder.rule_file)


def refuse_taken_id(request: EvaluationRequest, checked: CheckedRequest) -> None:
    """Raise `InputError` if the run id that a request gives belongs to another evaluation."""
    runs = checked.lake.root / "runs"
    if request.run_id is not None and (runs / request.run_id).is_dir():
        find_run(runs, _fingerprint(request, checked, digest_files(checked.files)), request.run_id)


@contextmanager
def claimed_run(
    lake: Lake, fingerprint: str, run_id: str | None, now: datetime, run_in: Callable[[RunFolder], Run]
) -> Iterator[Run]:
    """Lock a run's folder while the block runs; afterwards delete the working files if the run is published.

    run_in: makes the run of a folder. Raises `InputError` as `claim_run`.
    """
    with translate_full_disk(lake.name), claim_run(lake.root / "runs", fingerprint, run_id, now) as claim:
        drop_unreadable(claim.folder)
        append_start(claim.folder)
        yield run_in(claim.folder)
        if claim.folder.published_file.exists():
            claim.folder.tidy()


def _make_run(
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
        embedder=checked.embedder,
        suites=checked.suites,
    )


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Maintain the run's row in the lake: running while the block runs, failed with the reason if it raises.

    A manual request that is refused before planning leaves neither row nor folder. Nor does a run whose judge refused a
    setting, or has no key, before anything was paid: it begins again. Otherwise the row of a nightly or triggered run
    stays, because nobody sees its error in a terminal.
    """
    with translate_full_disk(run.lake.name):
        _write_row(run, "running", None)
        store_command(run.folder, run.request)
    try:
        with translate_full_disk(run.lake.name), run_span(run.run_id, _span_attributes(run)):
            yield
    except BaseException as error:
        reason = _failure_reason(run, error)
        # If the lake itself failed, the row can't be written; the first error is the one to report.
        with suppress(GradebookError, duckdb.Error, OSError):
            is_refused = isinstance(error, InputError) and run.request.trigger == "manual" and not _is_planned(run)
            if is_refused or (isinstance(error, RefusedSetting | MissingKey) and is_unpaid(run.folder)):
                _forget_run(run)
            else:
                _write_failure(run, reason[:2_000])
            if run.request.record is not None:
                write_recording(run.lake, run.folder, run.rubric, Path(run.request.record))
        raise


def is_unpaid(folder: RunFolder) -> bool:
    """Whether a run has neither paid for a reply nor sent a request that may be billed."""
    return not folder.budget_file.exists() or not any(read_budget(folder.budget_file).values())


def _failure_reason(run: Run, error: BaseException) -> str:
    """Why a run failed, for its row."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    reason = str(error) if isinstance(error, GradebookError) else f"{type(error).__name__}: {error}"
    return in_suites_file(reason) if run.request.suite else reason


def _span_attributes(run: Run) -> dict[str, object]:
    """Attributes of the run's span."""
    return {
        "rubric_id": run.rubric.id,
        "rubric_version": run.rubric.version,
        "judge": run.judge.judge if run.judge else None,
        "trigger": run.request.trigger,
        "code_version": code_version(),
    }


def is_published(run: Run) -> bool:
    """Whether this run is already published.

    Raises `InputError` if the id belongs to another evaluation, or to one with another baseline or rule.
    """
    query = "select dataset_digest, rubric_digest, settings from runs where run_id = ? and status = 'published'"
    with connect(run.lake, read_only=True) as connection:
        row = connection.execute(query, [run.run_id]).fetchone()
    if row is None:
        return False
    if row[:2] != (run.dataset_digest, run.rubric_digest):
        raise InputError("--run-id", f"{run.run_id}, which published other outputs or another rubric", "a new id")
    settings = json.loads(row[2] or "{}")
    sample_settings = settings.get("sample"), settings.get("stratify")
    if sample_settings != (run.request.sample, run.request.stratify) and not run.taken_over:
        published, requested = _cases_words(*sample_settings), _cases_words(run.request.sample, run.request.stratify)
        raise InputError("--run-id", f"{run.run_id}, which published {published}", f"a new id for {requested}")
    for option in ("baseline", "fail_if", "require", "stop"):
        requested_value = getattr(run.request, option)
        published_value = settings.get(f"{option}_asked", settings.get(option))
        if requested_value is not None and requested_value != published_value:
            raise InputError(
                f"--{option.replace('_', '-')}",
                f"{requested_value!r}, but {run.run_id} is published without it",
                "a new run, or `gradebook compare` for published runs",
            )
    return True


def _cases_words(sample: int | None, stratify: str | None) -> str:
    by = "" if stratify is None else f" by {stratify}"
    return "all cases" if sample is None else f"a sample of {counted(sample, 'case')}{by}"


def run_row(run: Run, status: str, reason: str | None) -> dict[str, object]:
    """Columns of the run's row that do not depend on its outcome."""
    request = run.request
    baseline = stored_baseline(run.folder) if request.baseline else Baseline()
    stopping = stored_stopping(run.folder) if request.stop else None
    settings = json_values(request, Use.SETTINGS) | {
        "judge": run.judge.identity if run.judge else None,  # `gradebook lake ledger verify` recomputes keys from it
        **(run.judge.recalibrated if run.judge else {}),
        "embedder": run.embedder.identity if run.embedder else None,
        "baseline_run_id": baseline.run_id,
        "baseline_fault": baseline.fault,
        "baseline_chosen_from": baseline.chosen_from,
        "baseline_failed_models": list(baseline.failed),
        "series": baseline.series,
        "stopping": stopping.as_json() if stopping else None,
        **({"warnings": run.folder.warnings} if run.folder.warnings else {}),
        "ratings_version": ratings_version(run.folder.ratings_file),
        "suite": request.suite,  # with the night, finds a baseline among earlier nights
        "night": None if request.night is None else request.night.isoformat(),
        "functions": sorted(set(runnable_functions(run.rubric, run.functions).values())),
    }
    if request.require == AUTO:  # store the rule that was chosen
        settings |= {"require": run.require, "require_asked": AUTO}
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
        "stopped_at": stopping.stopped_at if stopping else None,
        **run.taken_over,
    }


def replace_row(connection: duckdb.DuckDBPyConnection, row: Mapping[str, object]) -> None:
    """Replace the row of a run; the row of a published run is left as it is."""
    if remove_row(connection, row["run_id"]):
        insert_row(connection, row)


def insert_row(connection: duckdb.DuckDBPyConnection, row: Mapping[str, object]) -> None:
    """Insert the row of a run that has none."""
    names = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    connection.execute(f"insert into runs ({names}) values ({marks})", list(row.values()))


def remove_row(connection: duckdb.DuckDBPyConnection, run_id: object) -> bool:
    """Delete the row of a run, if it has one; False if the run is published, whose row stays."""
    earlier = connection.execute("select status from runs where run_id = ?", [run_id]).fetchall()
    if ("published",) in earlier:
        return False
    if earlier:
        connection.execute("delete from runs where run_id = ?", [run_id])
    return True


def _write_row(run: Run, status: str, reason: str | None) -> None:
    row = run_row(run, status, reason)
    commit(run.lake, f"run {run.run_id} {status}", lambda connection, _version: replace_row(connection, row))


def _write_failure(run: Run, reason: str) -> None:
    """Write the row of a failed run: reason, cost (null if unknown) and failed expectations."""
    row, findings = run_row(run, "failed", reason), read_findings(run.folder)

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        spent = connection.execute(_SPENT, [run.run_id]).fetchone()
        replace_row(connection, {**row, "cost_usd": spent[0] if spent else None})
        replace_findings(connection, run.run_id, findings)

    commit(run.lake, f"run {run.run_id} failed", body)


def _is_planned(run: Run) -> bool:
    return run.folder.plan_summary_file.exists()


def _forget_run(run: Run) -> None:
    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        remove_row(connection, run.run_id)

    commit(run.lake, f"run {run.run_id} refused", body)
    shutil.rmtree(run.folder.path)


def replace_findings(connection: duckdb.DuckDBPyConnection, run_id: str, findings: pa.Table) -> None:
    """Replace the data-quality findings of a run's earlier, failed attempt."""
    earlier = connection.execute("from quality_results where run_id = ? limit 1", [run_id]).fetchall()
    if earlier:  # rare, and this query takes a third of the time of a deletion
        connection.execute("delete from quality_results where run_id = ?", [run_id])
    connection.register("findings", findings)
    connection.execute("insert into quality_results by name from findings")


def _fingerprint(request: EvaluationRequest, checked: CheckedRequest, dataset_digest: str) -> str:
    """Digest of everything that makes a different run.

    The budget is not included, so that a run can be resumed with a larger one. The baseline and its rule are not
    included, because they do not change judgments unless the run may stop.
    """
    by_content: dict[str, object] = {
        "outputs": dataset_digest,
        "rubric": rubric_digest(checked.rubric),
        "judge": checked.judge.verdict_digest if checked.judge else None,
        "embedder": checked.embedder.digest if checked.embedder else None,
        "ratings": digest_files((Path(request.ratings),)) if request.ratings else None,
        "allow_functions": runnable_functions(checked.rubric, checked.functions),
    }
    if request.stop is not None:  # the judged cases depend on it
        by_content["baseline"] = request.baseline
    set_by_flows = {
        "checkpoint": asdict(request.checkpoint) if request.checkpoint else None,
        "suite": request.suite,  # so that another command does not resume a suite's failed run
        "night": None if request.night is None else request.night.isoformat(),
    }
    content = json_values(request, Use.FINGERPRINT) | by_content | set_by_flows | {"code_version": code_version()}
    return digest_of(json.dumps(content, sort_keys=True))


def store_plan_summary(folder: RunFolder, planned: RunPlan, verdict_count: int) -> None:
    """Store the planned number of verdicts and requests, and the estimated cost."""
    summary = {"verdict_count": verdict_count, "request_count": planned.request_count, "cost_usd": planned.cost_usd}
    write_text(folder.plan_summary_file, json.dumps(summary))
