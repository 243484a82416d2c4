"""Steps after scoring: verdicts of a shard collected and checked, and the judge's feedback."""

from gradebook.rubrics.prompts.feedback import FEEDBACK_CRITERION_ID
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.session.session import Session
from gradebook.tasks.judging.settings.panels import writer_of
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.cluster import keep_work
from gradebook.tasks.scoring.feedback import write_feedback
from gradebook.tasks.scoring.shards import collect_shard
from gradebook.tasks.stages.quality import store_findings, verdict_findings
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.workspace.timings import Timing, timed


def collect_verdicts(run: Run, shard_index: int, computed: tuple[Timing, ...]) -> None:
    """Collect the verdicts of one shard, and check them in SQL.

    computed: timings of a cluster's workers. Raises `QualityNotMet`.
    """
    keep_work(run.folder, shard_index, computed)
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index) as timing:
        timing.row_count = collect_shard(run.folder, run.rubric, shard_index)
        store_findings(run.folder, verdict_findings(run.folder, shard_index))


def write_run_feedback(run: Run, ingested: Ingested, session: Session | None) -> str | None:
    """Let the judge, if there is one, write feedback; returns a note, if any.

    Raises `BudgetReached` or `EndpointUnavailable`.
    """
    if session is None or run.judge is None:
        return None
    with timed(run.folder, "score", FEEDBACK_CRITERION_ID) as timing:
        count = write_feedback(run.lake, run.folder, run.rubric, ingested.shards, session, writer_of(run.judge))
        timing.row_count, timing.replayed_count = count.asked_count + count.replayed_count, count.replayed_count
    return count.note
