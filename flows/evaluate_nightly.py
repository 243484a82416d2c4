"""Nightly flow: the suites of a file evaluated in turn, each as a run of its own, then compaction of their lake."""

from datetime import date
from pathlib import Path

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from gradebook.flows.deployment.names import GATES_NOT_MET, nightly_name
from gradebook.flows.deployment.prefect_stages import WORKER_COUNT, PrefectStages
from gradebook.tasks.operations.nightly import Night, NightUnfinished, run_night
from gradebook.tasks.operations.suites import chosen_suites, read_suites, with_lake


@flow(
    name="evaluate-nightly",
    flow_run_name=nightly_name,
    task_runner=ThreadPoolTaskRunner(max_workers=WORKER_COUNT),  # type: ignore[arg-type]
)
def evaluate_nightly(
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
    file = with_lake(read_suites(Path(suites)), lake, data)
    stages = PrefectStages()
    night = run_night(suites, file, chosen_suites(file, only), date, stages)
    if night.failed:
        raise NightUnfinished(night)  # raised, not returned: Prefect retries a flow run only after an exception
    if night.unmet:
        stages.name_outcome(f"{nightly_name()}: gates not met")
        return Completed(name=GATES_NOT_MET, message=night.sentence, data=night)
    return Completed(message=night.sentence, data=night)
