"""The dry run: what an evaluation would ask and cost, with nothing left behind."""

from datetime import UTC, datetime

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import previewed_run
from gradebook.tasks.stages.pipeline import plan_evaluation
from gradebook.tasks.stages.submit import Stages


def preview_run(request: EvaluationRequest) -> tuple[Ingested, RunPlan]:
    """Ingest into a temporary folder and plan. Raises `InputError` as the evaluation would before its first request."""
    with previewed_run(request, datetime.now(UTC)) as run:
        return plan_evaluation(run, Stages(), is_preview=True)


def read_column_map(pairs: list[str]) -> dict[str, str]:
    """Read `--map output=response` pairs: gradebook's column, then the file's. Raises `InputError`."""
    column_map = {}
    for pair in pairs:
        column, equals, found = pair.partition("=")
        if not (column and equals and found):
            raise InputError(f"--map: found {pair!r}, expected COLUMN=NAME_IN_THE_FILE")
        column_map[column] = found
    return column_map
