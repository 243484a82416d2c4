"""Nightly flow: the suites of a file evaluated in turn, each as a run of its own, then compaction of their lake."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import duckdb
from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from gradebook.flows.deployment.artifacts import show_night
from gradebook.flows.deployment.names import GATES_NOT_MET, nightly_name
from gradebook.flows.deployment.run_evaluation import WORKER_COUNT, publish_evaluation
from gradebook.flows.deployment.run_ids import deployed_run_id, flow_date
from gradebook.rubrics.model.errors import GradebookError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import lake_exists
from gradebook.tasks.operations.nightly import Night, NightUnfinished, SuiteEnd, budget_left, failed_end, published_end
from gradebook.tasks.operations.sentinel import Watch, watch_judge
from gradebook.tasks.operations.suites import (
    Suite,
    SuitesFile,
    chosen_suites,
    read_suites,
    suite_request,
    suites_lake,
    watch_request,
)
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.suite_process import warm_up
from gradebook.tasks.workspace.folder import DEFAULT_LAKE, RunFolder

DRIFTED_EVENT = "gradebook.judge.drifted"


@flow(
    name="evaluate-nightly",
    flow_run_name=nightly_name,
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
async def evaluate_nightly(
    suites: str,
    date: date | None = None,
    only: list[str] | None = None,
    lake: str | None = None,
    data: str | None = None,
) -> State[Night]:
    """Evaluate the suites of a file and publish each as a run; after a failed suite the others still run.

    The flow run ends as Completed, as GatesNotMet (a state of type Completed), or as Failed.

    Args:
        suites: the suites file, as the worker sees it
        date: value of {date} in the suites; default: today
        only: ids of the suites to evaluate; default: all
        lake: lake to use instead of the file's
        data: folder of Parquet files to use instead of the file's
    """
    file = read_suites(Path(suites))
    lake = lake or suites_lake(file, os.environ) or DEFAULT_LAKE
    file = file.model_copy(update={"lake": lake, "data": data or file.data})
    chosen = chosen_suites(file, only)
    warm_up()
    day = date or flow_date()
    night = _with_upkeep(Night(day, await _evaluate_all(suites, file, chosen, day), file.budget_usd), file)
    await show_night(night, suites)
    if night.failed:
        raise NightUnfinished(night)  # raised, not returned: Prefect retries a flow run only after an exception
    if night.unmet:
        return Completed(name=GATES_NOT_MET, message=night.sentence, data=night)
    return Completed(message=night.sentence, data=night)


async def _evaluate_all(path: str, file: SuitesFile, chosen: Sequence[Suite], day: date) -> tuple[SuiteEnd, ...]:
    ended: list[tuple[SuiteEnd, EvaluationRequest]] = []
    for suite in chosen:
        left = budget_left(file.budget_usd, ended)
        now = datetime.now(UTC)
        request = suite_request(suite, day, now, lake=file.lake, data=file.data, budget_usd=left)
        again = ("gradebook", "nightly", path, "--only", suite.id, "--date", day.isoformat())
        request = replace(request, run_id=deployed_run_id(suite.id), again=again)
        watch = await asyncio.to_thread(_watch, suite, request, now)
        if isinstance(watch, Watch):
            _emit_drift(watch)
            if request.budget_usd is not None:
                request = replace(request, budget_usd=max(request.budget_usd - (watch.cost_usd or 0.0), 0.0))
        ended.append((_with_watch(await _evaluate(suite.id, request, now), suite, watch), request))
    return tuple(end for end, _ in ended)


def _watch(suite: Suite, request: EvaluationRequest, now: datetime) -> Watch | str | None:
    """Ask the suite's anchors; a fault is returned in words, because the suite is evaluated anyway."""
    wanted = watch_request(suite, request)
    if wanted is None:
        return None if suite.anchors is None else "the suite has no judge"
    try:
        return watch_judge(find_lake(request.lake, request.data), wanted, now)
    except (GradebookError, duckdb.Error) as error:
        return str(error)


def _with_watch(end: SuiteEnd, suite: Suite, watch: Watch | str | None) -> SuiteEnd:
    if not isinstance(watch, Watch):
        return replace(end, watch_fault=watch)
    is_failing = suite.anchors is not None and suite.anchors.fail and watch.is_changed
    unmet = (*end.unmet, watch.sentence) if is_failing else end.unmet
    return replace(end, watch=watch, unmet=unmet, is_met=end.is_met and not is_failing)


def _emit_drift(watch: Watch) -> None:
    """Emit the event of a judge that changed; its id depends on the night, the anchors and the judge alone."""
    first = watch.rows[0]
    key = ("gradebook judge", first["anchor_set"], first["judge_digest"], str(first["night"]))
    try:
        if watch.is_changed:
            emit_event(
                DRIFTED_EVENT,
                resource={"prefect.resource.id": f"gradebook.judge.{first['judge']}"},
                payload=watch.as_json(),
                id=uuid5(NAMESPACE_URL, "\n".join(key)),
            )
    except Exception as error:  # noqa: BLE001 - the night is stored in the lake
        get_run_logger().warning("no event of the judge %s was emitted: %r", first["judge"], error)


async def _evaluate(suite: str, request: EvaluationRequest, now: datetime) -> SuiteEnd:
    """Publish one suite's run; a failure is returned, not raised."""
    try:
        summary = await publish_evaluation(request)
    except Exception as error:  # noqa: BLE001 - the other suites are evaluated anyway
        end = failed_end(suite, request, now, error)
        is_unexpected = not isinstance(error, GradebookError)
        get_run_logger().error("suite %s did not finish: %s", suite, end.fault, exc_info=is_unexpected)
        return end
    root = find_lake(request.lake, request.data).root
    return published_end(suite, summary, RunFolder.below(root, summary.run_id).report_file)


def _with_upkeep(night: Night, file: SuitesFile) -> Night:
    """Compact the lake and record the outcome; a failure is recorded and logged, but the flow run does not fail."""
    try:
        found = find_lake(file.lake or DEFAULT_LAKE, file.data)
        return replace(night, upkeep=compact_lake(found)) if lake_exists(found) else night
    except Exception as error:  # noqa: BLE001 - see above
        get_run_logger().warning("the lake could not be compacted: %r", error)
        return replace(night, upkeep_fault=f"{type(error).__name__}: {error}")
