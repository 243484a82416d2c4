"""The stages as Prefect tasks, with the names shown in Prefect's UI."""

from collections.abc import Callable, Mapping
from typing import Any

from prefect import Task
from prefect.cache_policies import NO_CACHE

from gradebook.tasks.collecting.collect import collect_outputs
from gradebook.tasks.comparing.interim_analyses import analyse_block
from gradebook.tasks.scoring.shards import compute_work, score_criteria, score_own_criteria, score_shard
from gradebook.tasks.stages.aggregate import aggregate_run
from gradebook.tasks.stages.publish import conclude_run, publish_run
from gradebook.tasks.stages.quality import (
    check_judgments,
    check_output_suites,
    check_outputs,
    check_score_suites,
    check_verdicts,
)
from gradebook.tasks.stages.run_stages import (
    ask_run_in_batches,
    collect_verdicts,
    ingest_run,
    plan_judgments,
    write_run_feedback,
)

# A stage's function, its task's name, and the name of the task's runs.
_NAMES: dict[Callable[..., Any], tuple[str, str]] = {
    collect_outputs: ("collect", "collect"),
    ingest_run: ("ingest", "ingest"),
    check_outputs: ("check_outputs", "quality of ingest · shard {shard_index}"),
    check_verdicts: ("check_verdicts", "quality of reused verdicts · shard {shard_index}"),
    check_output_suites: ("check_output_suites", "expectations of outputs"),
    plan_judgments: ("plan", "plan"),
    ask_run_in_batches: ("ask_in_batches", "batches"),
    score_shard: ("score_criterion", "{criterion.id} · shard {shard_index}"),
    score_criteria: ("score_criteria", "{criteria[0].id} and further · shard {shard_index}"),
    score_own_criteria: ("score_case_criteria", "own criteria · shard {shard_index}"),
    compute_work: ("compute_shard", "checks · shard {work.shard_index}"),
    collect_verdicts: ("collect_verdicts", "quality of verdicts · shard {shard_index}"),
    analyse_block: ("look", "look {block}"),
    write_run_feedback: ("write_feedback", "feedback"),
    check_judgments: ("check_judgments", "quality of judgments"),
    aggregate_run: ("aggregate", "aggregate"),
    check_score_suites: ("check_score_suites", "expectations of scores"),
    publish_run: ("publish", "publish"),
    conclude_run: ("conclude", "report"),
}
TASKS: dict[Callable[..., Any], Task[..., Any]] = {
    stage: Task(stage, name=name, task_run_name=run_name, cache_policy=NO_CACHE)
    for stage, (name, run_name) in _NAMES.items()
}


def tasks_of(suite: str | None) -> Mapping[Callable[..., Any], Task[..., Any]]:
    """The tasks, each with the suite's name in the names of its runs, if there is a suite."""
    if suite is None:
        return TASKS
    return {stage: TASKS[stage].with_options(task_run_name=f"{suite} · {name}") for stage, (_, name) in _NAMES.items()}
