"""A night: the suites of a file evaluated one after the other, each a run of its own, then upkeep of their lake."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from gradebook.flows.deployment.artifacts import show_night
from gradebook.flows.deployment.automations import GATES_NOT_MET
from gradebook.flows.deployment.run_evaluation import WORKER_COUNT, publish_evaluation
from gradebook.flows.deployment.run_ids import deployed_run_id, flow_date
from gradebook.rubrics.model.errors import GradebookError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import lake_exists
from gradebook.tasks.operations.nightly import Night, NightUnfinished, SuiteEnd, budget_left, failed_end, published_end
from gradebook.tasks.operations.suites import Suite, SuitesFile, chosen_suites, read_suites, suite_request
from gradebook.tasks.runs.request import DEFAULT_LAKE, EvaluationRequest
from gradebook.tasks.stages.quality import warm_up
from gradebook.tasks.workspace.folder import RunFolder


@flow(
    name="evaluate-nightly",
    flow_run_name="{suites}",
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
async def evaluate_nightly(
    suites: str,
    date: date | None = None,
    only: list[str] | None = None,
    lake: str | None = None,
    data: str | None = None,
) -> State[Night]:
    """Evaluate a night's suites and publish each; one that fails keeps no other from its turn.

    Ends as Completed, as GatesNotMet, which is Completed too, or as Failed.

    Args:
        suites: the suites file, as the worker sees it
        date: what {date} stands for in the suites; today where it is not named
        only: ids of the suites to evaluate; all where none is named
        lake: instead of the file's
        data: instead of the file's
    """
    file = read_suites(Path(suites))
    file = file.model_copy(update={"lake": lake or file.lake or DEFAULT_LAKE, "data": data or file.data})
    chosen = chosen_suites(file, only)
    warm_up()
    day = date or flow_date()
    night = _with_upkeep(Night(day, await _evaluate_all(suites, file, chosen, day), file.budget_usd), file)
    await show_night(night)
    if night.failed:
        raise NightUnfinished(night)  # raised and not returned, so that the flow run is retried where it may be
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
        ended.append((await _evaluate(suite.id, request, now), request))
    return tuple(end for end, _ in ended)


async def _evaluate(suite: str, request: EvaluationRequest, now: datetime) -> SuiteEnd:
    """Publish one suite's run; or why that could not be."""
    try:
        summary = await publish_evaluation(request)
    except Exception as error:  # noqa: BLE001 - the other suites have their turn, whatever became of this one
        end = failed_end(suite, request, now, error)
        is_unexpected = not isinstance(error, GradebookError)
        get_run_logger().error("suite %s did not finish: %s", suite, end.fault, exc_info=is_unexpected)
        return end
    root = find_lake(request.lake, request.data).root
    return published_end(suite, summary, RunFolder(root / "runs" / summary.run_id).report_file)


def _with_upkeep(night: Night, file: SuitesFile) -> Night:
    """The night with its lake compacted: what keeps that from going through fails no night."""
    try:
        found = find_lake(file.lake or DEFAULT_LAKE, file.data)
        return replace(night, upkeep=compact_lake(found)) if lake_exists(found) else night
    except Exception as error:  # noqa: BLE001 - see above
        get_run_logger().warning("the lake is not compacted: %r", error)
        return replace(night, upkeep_fault=f"{type(error).__name__}: {error}")
