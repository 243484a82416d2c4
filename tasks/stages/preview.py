"""The dry run: what an evaluation would ask and cost, with nothing left behind."""

import tempfile
from pathlib import Path

from gradebook.tasks.datasets.case_criteria import refuse_no_criteria, write_case_criteria
from gradebook.tasks.datasets.discovery import dataset_folders
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.lake.connections import lake_exists
from gradebook.tasks.planning.plan import RunPlan, plan_run
from gradebook.tasks.ratings.run_ratings import has_preferred, match_ratings
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.scoring.feedback import add_feedback
from gradebook.tasks.stages.check_request import check_request, read_request_ratings
from gradebook.tasks.stages.pipeline import ingest_request
from gradebook.tasks.workspace.folder import RunFolder


def preview_run(request: EvaluationRequest) -> tuple[Ingested, RunPlan]:
    """Ingest into a temporary folder and plan. Raises `InputError` as the evaluation itself would."""
    checked = check_request(request)
    with tempfile.TemporaryDirectory(prefix="gradebook-plan-") as folder:
        run_folder = RunFolder(Path(folder) / "preview")
        ingested = ingest_request(request, checked.rubric, checked.files, run_folder)
        refuse_no_criteria(checked.rubric, write_case_criteria(run_folder, ingested.shards))
        if has_preferred(checked.rubric):
            ratings = read_request_ratings(request, checked.rubric, checked.files)
            match_ratings(checked.lake if lake_exists(checked.lake) else None, run_folder, ingested.shards, ratings)
        planned = plan_run(
            checked.lake,
            run_folder,
            checked.rubric,
            checked.judge,
            ingested.shards,
            ingested.output_count,
            is_preview=True,
            folders=dataset_folders(checked.files),
        )
        planned = add_feedback(planned, request.feedback, checked.judge, checked.rubric, ingested)
    return ingested, planned
