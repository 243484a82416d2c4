"""Ingest and plan of a run: validated shards, and the judgments that are missing."""

from dataclasses import replace

from gradebook.tasks.comparing.answer_pairs import write_pairs
from gradebook.tasks.comparing.baseline import refuse_unpaired
from gradebook.tasks.comparing.looks import forecast_stop, plan_looks
from gradebook.tasks.datasets.case_criteria import taken_ids
from gradebook.tasks.datasets.ingest import Ingested, ingest_outputs
from gradebook.tasks.judging.session.session import refuse_bad_addresses
from gradebook.tasks.ledger.ledger import settle_journals
from gradebook.tasks.planning.plan import RunPlan, plan_run, prepare_plan
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.check_request import read_request_ratings
from gradebook.tasks.stages.open_run import keep_planned
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.timings import timed

_SHORTENED = "{} shortened for the judge, by the rule in docs/judging.md#trajectories"


def ingest_run(run: Run) -> Ingested:
    """Read the run's outputs into validated shards. Raises `OutputsError`, and `InputError` as `plan_looks` does."""
    request = run.request
    reporter().begin("ingest", None)
    with timed(run.folder, "ingest") as timing:
        ingested = ingest_outputs(
            run.run_id,
            run.files,
            run.folder.path,
            column_map=request.column_map,
            trace_format=request.trace_format,
            model=request.row_model,
            taken_ids=taken_ids(run.rubric),
            is_unscored_allowed=request.allow_unscored,
            checkpoint=request.checkpoint,
            max_bad_rate=request.max_bad_rate,
            sample=request.sample,
            stratify=request.stratify,
            advance=lambda count: reporter().advance("ingest", count),
        )
        if request.stop is not None:
            ingested = plan_looks(run, ingested)
        timing.row_count = ingested.row_count
    reporter().end("ingest")
    return ingested


def _trajectories(count: int) -> str:
    return "1 trajectory is" if count == 1 else f"{count:,} trajectories are"


def plan_judgments(run: Run, ingested: Ingested, *, is_preview: bool = False) -> RunPlan:
    """Find and price the missing judgments. is_preview: do not write to the lake. Raises `InputError`."""
    reporter().begin("plan", None)
    with timed(run.folder, "plan") as timing:
        refuse_unpaired(run.lake, run.run_id, run.request.baseline, ingested.shards)
        if not is_preview:
            notes: list[str] = []
            settle_journals(run.lake, notes)
            run.folder.add_notes(notes)
        ratings = read_request_ratings(run.request, run.rubric, run.files)
        write_pairs(run.lake, run.folder, run.rubric, ingested.shards, run.request.baseline)
        prepare_plan(run.lake, run.folder, run.rubric, ingested.shards, ratings)
        planned = plan_again(run, ingested, is_preview=is_preview)
        if is_preview:
            planned = replace(planned, stop=forecast_stop(run))
        refuse_bad_addresses(run.judge, planned.asked_judges)
        timing.row_count = ingested.output_count
    reporter().end("plan")
    verdict_count = ingested.output_count * len(run.rubric.criteria) + planned.own_count.criterion_count
    if planned.shortened_count and not is_preview:
        run.folder.add_notes([_SHORTENED.format(_trajectories(planned.shortened_count))])
    keep_planned(run.folder, planned, verdict_count)
    return planned


def plan_again(run: Run, ingested: Ingested, *, is_preview: bool = False) -> RunPlan:
    """Update the plan of `plan_judgments` after further judgments."""
    return plan_run(
        run.lake,
        run.folder,
        run.rubric,
        run.judge,
        ingested,
        feedback=run.request.feedback,
        is_preview=is_preview,
        folders=run.folders,
        embedder=run.embedder,
        baseline=run.request.baseline,
    )
