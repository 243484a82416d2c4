"""The stages as Prefect tasks: a name for the UI around the functions that do the work."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from prefect import task
from prefect.cache_policies import NO_CACHE

from gradebook.tasks.collecting.collect import Collected, CollectRequest, collect_outputs
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.session.session import Session
from gradebook.tasks.ledger.ledger import run_judgments
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.cluster import ShardWork, compute_work, keep_work
from gradebook.tasks.scoring.setup import ScoringSetup
from gradebook.tasks.scoring.shards import collect_shard, score_own_criteria, score_shard
from gradebook.tasks.stages.aggregate import aggregate_run
from gradebook.tasks.stages.notes import run_notes
from gradebook.tasks.stages.pipeline import ask_run_in_batches, ingest_run, plan_judgments, write_run_feedback
from gradebook.tasks.stages.publish import conclude_run, publish_run
from gradebook.tasks.stages.quality import validate
from gradebook.tasks.system.events import Piece, piece_span
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing, timed

BATCH_ROWS = 250_000
# The columns that the suites look at; what spans batches, such as the grain, is held by sql/checks.
MARTS_WITH_A_SUITE = {
    "output_scores": ["output_id", "score"],
    "criterion_scores": ["model", "checkpoint", "criterion_id", "mean"],
    "run_scores": ["model", "checkpoint", "mean"],
}
VERDICT_COLUMNS = ["output_id", "criterion_id", "status", "score", "reason"]


@task(task_run_name="collect", cache_policy=NO_CACHE)
def collect(request: CollectRequest) -> Collected:
    """Ask whoever serves a model for its outputs, and write their file."""
    return collect_outputs(request)


@task(task_run_name="ingest", cache_policy=NO_CACHE)
def ingest(run: Run) -> Ingested:
    """Read the outputs into validated shards."""
    return ingest_run(run)


@task(task_run_name="quality of ingest · shard {shard_index}", cache_policy=NO_CACHE)
def validate_outputs(run: Run, shard: str, shard_index: int) -> None:
    """Hold one shard of outputs against the suite of the ingest."""
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index) as timing:
        narrow = pq.read_table(shard, columns=["output_id", "case_id", "model", "checkpoint", "sample_index", "output"])
        validate(run.folder, "ingest", f"shard {shard_index}", narrow)
        timing.row_count = narrow.num_rows


@task(task_run_name="plan", cache_policy=NO_CACHE)
def plan(run: Run, ingested: Ingested) -> RunPlan:
    """Find what is not judged yet, and its price."""
    return plan_judgments(run, ingested)


@task(task_run_name="batches", cache_policy=NO_CACHE)
def ask_in_batches(run: Run, ingested: Ingested, planned: RunPlan) -> RunPlan:
    """Ask the judge in batches where its settings say so; returns the plan of what is left."""
    return ask_run_in_batches(run, ingested, planned)


@task(task_run_name="{criterion_id} · shard {shard_index}", cache_policy=NO_CACHE)
def score_criterion(run: Run, setup: ScoringSetup, criterion_id: str, shard: str, shard_index: int) -> str:
    """Score one criterion over one shard; returns the verdict file's path."""
    return str(score_shard(setup, run.rubric.criterion(criterion_id), shard, shard_index))


@task(task_run_name="own criteria · shard {shard_index}", cache_policy=NO_CACHE)
def score_case_criteria(setup: ScoringSetup, shard: str, shard_index: int) -> str:
    """Score the criteria that the rows of one shard bring along; returns the verdict file's path."""
    return str(score_own_criteria(setup, shard, shard_index))


@task(task_run_name="checks · shard {shard_index}", cache_policy=NO_CACHE)
def compute_shard(work: ShardWork, shard_index: int) -> tuple[Timing, ...]:
    """Score all that code decides over one shard, by a worker of a cluster; returns what each criterion took."""
    return compute_work(work)


@task(task_run_name="quality of verdicts · shard {shard_index}", cache_policy=NO_CACHE)
def validate_verdicts(run: Run, shard_index: int, computed: tuple[Timing, ...] = ()) -> None:
    """Put the verdicts of one shard together and hold them against their suite. computed: a cluster's times."""
    keep_work(run.folder, shard_index, computed)
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index) as timing:
        timing.row_count = collect_shard(run.folder, run.rubric, shard_index)
        path = run.folder.collected_file(shard_index)
        _validate_file(run.folder, "verdicts", f"shard {shard_index}", path, VERDICT_COLUMNS)


@task(task_run_name="feedback", cache_policy=NO_CACHE)
def write_feedback(run: Run, ingested: Ingested, session: Session | None) -> str | None:
    """Let the judge write its feedback where the run asks for it; returns a note for people, where there is one."""
    return write_run_feedback(run, ingested, session)


@task(task_run_name="quality of judgments", cache_policy=NO_CACHE)
def validate_judgments(run: Run) -> None:
    """Hold the judgments that this run paid for against their suite."""
    with timed(run.folder, "quality") as timing:
        for index, judgments in enumerate(run_judgments(run.lake, run.run_id)):
            validate(run.folder, "judgments", f"batch {index}", judgments)
            timing.row_count += judgments.num_rows


@task(task_run_name="aggregate", cache_policy=NO_CACHE)
def aggregate(run: Run, ingested: Ingested) -> tuple[str, ...]:
    """Build the marts in SQL and check them."""
    reporter().begin("aggregate", None)
    with timed(run.folder, "aggregate") as timing:
        marts = aggregate_run(run, ingested.shards)
        timing.row_count = ingested.output_count * len(run.rubric.criteria)
    with timed(run.folder, "quality"):
        for mart, columns in MARTS_WITH_A_SUITE.items():
            _validate_file(run.folder, "marts", mart, run.folder.mart_file(mart), columns, f"marts.{mart}")
    reporter().end("aggregate")
    return marts


@task(task_run_name="publish", cache_policy=NO_CACHE)
def publish(run: Run, ingested: Ingested, planned: RunPlan, feedback_note: str | None) -> int:
    """Publish the run in one transaction; returns its version."""
    reporter().begin("publish", None)
    with piece_span(Piece(run.run_id, "publish")):
        version = publish_run(run, ingested, run_notes(run, ingested, planned, feedback_note))
    reporter().end("publish")
    return version


@task(task_run_name="report", cache_policy=NO_CACHE)
def conclude(run: Run) -> RunSummary:
    """Read the published run's summary back, write its report and tidy its folder."""
    return conclude_run(run)


def _validate_file(
    folder: RunFolder, stage: str, subject: str, path: Path, columns: list[str], suite: str | None = None
) -> None:
    """Hold a file against a suite, some rows at a time: pandas takes many times the space of Arrow."""
    with pq.ParquetFile(path) as file:
        for index, batch in enumerate(file.iter_batches(BATCH_ROWS, columns=columns)):
            name = f"{subject} · batch {index}" if index else subject
            validate(folder, stage, name, pa.Table.from_batches([batch]), suite)
