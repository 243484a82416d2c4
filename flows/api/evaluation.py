"""Evaluation of outputs from Python: the stages, tables and ledger of `gradebook evaluate`."""

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gradebook.flows.api.inputs import outputs_path, rubric_name
from gradebook.flows.api.published import Run, lake_uri
from gradebook.flows.api.wording import in_parameters
from gradebook.flows.evaluate_here import evaluate_here
from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.rubric_store.versions import GivenRubric
from gradebook.tasks.runs.request import read_request
from gradebook.tasks.system import progress as watched

FRAME = "(table in Python)"  # dataset name of outputs without a path
AGAIN = ("gradebook.evaluate(...)",)  # call that resumes a run of such outputs


@in_parameters
def evaluate(  # noqa: PLR0913 - each is an option of the command
    outputs: Any,
    rubric: GivenRubric,
    judge: str | None = None,
    lake: str | None = None,
    *,
    embedder: str | None = None,
    baseline: str | None = None,
    require: str | None = None,
    fail_if: str | None = None,
    stop: str | None = None,
    across_judges: bool = False,
    models: str = "common",
    gate: str = "both",
    budget_usd: float | None = None,
    ratings: str | Path | None = None,
    column_map: Mapping[str, str] | None = None,
    trace_format: str | None = None,
    model: str | None = None,
    sample: int | None = None,
    stratify: str | None = None,
    max_bad_rate: float = 0.01,
    allow_unscored: bool = False,
    allow_functions: Iterable[str] = (),
    feedback: str | None = None,
    deadline: str | datetime | None = None,
    record: str | Path | None = None,
    run_id: str | None = None,
    data: str | None = None,
    quality: str | Path | None = None,
    suites: bool = False,
    dataset: str | None = None,
    progress: bool | None = None,
    prefect: bool | None = None,
) -> Run:
    """Evaluate outputs with a rubric and publish the run, as `gradebook evaluate` does.

    outputs: a path, a list of dicts, or a table of pandas, Polars or Arrow; columns as in a file, case_id, model and
    output at least. NaN is a missing value. rubric: as `load_rubric` takes it. lake: a URI, by default GRADEBOOK_LAKE,
    else sqlite:lake/catalog.sqlite. dataset: name of the outputs in the table `runs`. progress: shown on stderr;
    default: in a terminal or a notebook. prefect: run the stages as tasks of a Prefect flow run; default: where
    PREFECT_API_URL or the active profile names a server. `gradebook evaluate --help` has the other options.

    The report's page is written by `Run.report`. Calling it again with the same outputs resumes an interrupted run, and
    with the run_id of a published one reads it back. Ctrl-C stops it; the judgments so far are in the ledger.

    >>> run = evaluate([{"case_id": "a", "model": "m", "output": '{"id": 1}'}], "json_record", lake=LAKE)
    >>> run.outputs.num_rows
    1

    Raises `InputError` for a wrong request, before anything is published, and `UnfinishedError` if the run can't be
    finished.
    """
    arguments = dict(locals())
    not_options = ("outputs", "rubric", "dataset", "progress", "prefect")  # all but these are options of the command
    options = {name: value for name, value in arguments.items() if name not in not_options} | {
        "lake": lake_uri(lake),
        "ratings": None if ratings is None else str(ratings),
        "allow_functions": tuple(allow_functions),
        "record": None if record is None else str(record),
        "quality": None if quality is None else str(quality),
    }
    with tempfile.TemporaryDirectory(prefix="gradebook-evaluate-") as folder:
        path = outputs_path(outputs, Path(folder))
        files = {"outputs": path, "rubric": rubric_name(rubric, Path(folder))}
        request = replace(read_request(options | files, datetime.now(UTC)), has_page=False)
        if Path(path).parent == Path(folder):
            request = replace(request, dataset=dataset or FRAME, again=AGAIN)
        elif dataset is not None:
            request = replace(request, dataset=dataset)
        with _without_folder(folder), _shown(progress):
            summary = evaluate_here(request, prefect=prefect, is_shown=False)
    return Run(find_lake(request.lake, request.data), summary.run_id, summary)


@contextmanager
def _without_folder(folder: str) -> Iterator[None]:
    """Replace the temporary file's name by `outputs` in errors about rows of a table."""
    try:
        yield
    except OutputsError as error:
        faults = tuple(
            Fault("outputs" if fault.path.startswith(folder) else fault.path, fault.line, fault.message, fault.rule)
            for fault in error.faults
        )
        raise OutputsError(faults) from None


@contextmanager
def _shown(progress: bool | None) -> Iterator[None]:
    """Show progress on stderr while the block runs. progress: None: only in a terminal or a notebook."""
    is_wanted = (sys.stderr.isatty() or "ipykernel" in sys.modules) if progress is None else progress
    if not is_wanted:
        watched.silence()  # remove a watcher of an earlier command in this process
        yield
        return
    from gradebook.flows.display.progress_bars import shown_progress

    try:
        with shown_progress():
            yield
    finally:
        watched.silence()
