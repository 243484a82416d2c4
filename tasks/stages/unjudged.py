"""Outputs that people rate before any judge is asked."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from gradebook.rubrics.files.digest import rubric_digest
from gradebook.tasks.datasets.discovery import digest_files
from gradebook.tasks.lake.connections import connect, prepare_lake
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.runner import THREADS
from gradebook.tasks.stages.check_request import check_request
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run
from gradebook.tasks.stages.submit import StagesInThreads


def run_to_rate(request: EvaluationRequest) -> str:
    """Id of the latest published run of the request's outputs and rubric, judged or not.

    Without one, the outputs are evaluated without a judge, as a run without a page. Raises `InputError` for a wrong
    request, and `UnfinishedError`.
    """
    request = replace(request, judge=None, allow_unscored=True, has_page=False, runner=THREADS)
    checked = check_request(request)
    prepare_lake(checked.lake)
    with connect(checked.lake, read_only=True) as connection:
        found = read_rows(
            connection,
            query("stages/run_of_outputs"),
            dataset_digest=digest_files(checked.files),
            rubric_digest=rubric_digest(checked.rubric),
        )
    for row in found:
        if json.loads(row["column_map"]) == dict(request.column_map):
            return str(row["run_id"])
    with opened_run(request, datetime.now(UTC)) as run:
        return complete_run(run, StagesInThreads()).run_id
