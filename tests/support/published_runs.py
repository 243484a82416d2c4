"""Runs evaluated by checks and published in this process: every stage of the flow but Prefect's part in it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.setup import opened_setup
from gradebook.tasks.scoring.shards import collect_shard, score_own_criteria, score_shard
from gradebook.tasks.stages.aggregate import aggregate_run
from gradebook.tasks.stages.notes import run_notes
from gradebook.tasks.stages.open_run import is_published, opened_run
from gradebook.tasks.stages.pipeline import ingest_run, plan_judgments
from gradebook.tasks.stages.publish import conclude_run, publish_run

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)


def publish(outputs: Path, rubric: Path, **request: Any) -> RunSummary:
    """Evaluate and publish a run; the lake lies beside the outputs. request: what else an `EvaluationRequest` has."""
    lake = f"sqlite:{outputs.parent}/lake/catalog.sqlite"
    with opened_run(EvaluationRequest(str(outputs), str(rubric), lake=lake, **request), NOW) as run:
        if not is_published(run):
            score_and_publish(run)
        return conclude_run(run)


def score_and_publish(run: Run) -> None:
    """Everything between an open run and its summary."""
    ingested = ingest_run(run)
    planned = plan_judgments(run, ingested)
    with opened_setup(run, planned) as setup:
        for index, shard in enumerate(ingested.shards):
            for criterion in run.rubric.criteria:
                score_shard(setup, criterion, shard, index)
            if run.folder.case_criteria_file(index).exists():
                score_own_criteria(setup, shard, index)
            collect_shard(run.folder, run.rubric, index)
    aggregate_run(run, ingested.shards)
    publish_run(run, ingested, run_notes(run, ingested, planned))
