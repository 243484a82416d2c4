"""The dry run: what an evaluation would ask and cost, with nothing left behind."""

import tempfile
from pathlib import Path

from rubrics.errors import InputError
from tasks.ingest import Ingested, ingest_outputs
from tasks.plan import RunPlan, plan_run
from tasks.progress import reporter
from tasks.runs import EvaluationRequest, check_request
from tasks.workspace import RunFolder


def preview_run(request: EvaluationRequest) -> tuple[Ingested, RunPlan]:
    """Ingest into a temporary folder and plan. Raises `InputError` as the evaluation itself would."""
    checked = check_request(request)
    with tempfile.TemporaryDirectory(prefix="gradebook-plan-") as folder:
        run_folder = RunFolder(Path(folder) / "preview")
        reporter().begin("ingest", None)
        ingested = ingest_outputs(
            run_folder.run_id,
            checked.files,
            run_folder.path,
            column_map=request.column_map,
            max_bad_rate=request.max_bad_rate,
            advance=lambda count: reporter().advance("ingest", count),
        )
        planned = plan_run(
            checked.lake, run_folder, checked.rubric, checked.judge, ingested.shards, ingested.output_count
        )
    return ingested, planned


def read_column_map(pairs: list[str]) -> dict[str, str]:
    """Read `--map output=response` pairs: gradebook's column, then the file's. Raises `InputError`."""
    column_map = {}
    for pair in pairs:
        column, equals, found = pair.partition("=")
        if not (column and equals and found):
            raise InputError(f"--map: found {pair!r}, expected COLUMN=NAME_IN_THE_FILE")
        column_map[column] = found
    return column_map
