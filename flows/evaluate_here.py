"""Evaluations that a command or a program runs in its own process, by the rule of flows.run."""

from contextlib import nullcontext
from pathlib import Path

from gradebook.flows.deployment.in_process import CommandRequest, with_command_request
from gradebook.flows.display.progress_bars import shown_progress
from gradebook.flows.run import LostServer, run_here
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import open_for_writing, refuse_unusable
from gradebook.tasks.lake.object_store import probe_store
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.request import EvaluationRequest, Use, json_values
from gradebook.tasks.runs.runner import read_runner
from gradebook.tasks.stages.check_request import check_request, refuse_bad_start
from gradebook.tasks.stages.open_run import is_published, refuse_taken_id
from gradebook.tasks.stages.pipeline import complete_run, publish_evaluation
from gradebook.tasks.stages.preview import refuse_failing_start
from gradebook.tasks.stages.submit import StagesInThreads
from gradebook.tasks.workspace.folder import RunFolder


def evaluate_here(
    request: EvaluationRequest, *, prefect: bool | None = None, is_verbose: bool = False, is_shown: bool = True
) -> RunSummary:
    """Evaluate and publish one run in this process. is_shown: whether progress is printed.

    The request is checked here, once: raises `InputError` before anything is written, and `UnfinishedError` if its
    judge does not answer or its budget is too small for one reply.
    """
    open_for_writing(find_lake(request.lake, request.data))
    checked_request = check_request(request)
    prefect = _for_cluster(request, prefect)
    refuse_bad_start(request, checked_request)
    refuse_taken_id(request, checked_request)
    refuse_failing_start(request, checked_request)
    refuse_unusable(checked_request.lake)
    if checked_request.lake.bucket is not None:  # fail before the start if the key has no permission to write
        probe_store(checked_request.lake.bucket)
    with (
        with_command_request(CommandRequest(request, checked_request)) as here,
        shown_progress() if is_shown else nullcontext(),
    ):
        try:
            return run_here(
                lambda: publish_evaluation(request, StagesInThreads(), checked_request),
                "evaluate_outputs:evaluate_outputs",
                json_values(request, Use.OUTPUTS_FLOW),
                prefect=prefect,
                is_verbose=is_verbose,
            )
        except LostServer:
            if here.run is None or not is_published(here.run):
                raise
            return complete_run(here.run, StagesInThreads())


def report_of(request: EvaluationRequest, summary: RunSummary) -> Path:
    """Path of the report of a run that `evaluate_here` published."""
    return RunFolder.below(find_lake(request.lake, request.data).root, summary.run_id).report_file


def _for_cluster(request: EvaluationRequest, prefect: bool | None) -> bool | None:
    """Value of --prefect: True if the runner is a cluster, which only Prefect reaches. Raises `InputError`."""
    runner = read_runner(request.runner)
    if not runner.is_cluster:
        return prefect
    if prefect is False:
        raise InputError(runner.name, "--no-prefect", "a Prefect flow, whose task runners reach a cluster")
    return True
