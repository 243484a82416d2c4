"""Check of a request: its files are read and checked before anything is written."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from gradebook.rubrics.files.validate import unreadable_files
from gradebook.rubrics.model.errors import Fault, InputError, JudgeSettingsError, RubricError
from gradebook.rubrics.model.methods import compares_with_baseline
from gradebook.rubrics.model.rubric import Rubric, effective_weights
from gradebook.rubrics.statistics.stopping import STOP_EXPECTED, read_stop_rule
from gradebook.tasks.comparing.baseline import refuse_baseline
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.datasets.case_criteria import own_level_scores, taken_ids
from gradebook.tasks.datasets.discovery import dataset_files
from gradebook.tasks.datasets.ingest import refuse_bad_rows
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.judging.prices import embedding_price, find_price, refuse_unpriced
from gradebook.tasks.judging.replies.batched_criteria import refuse_undecidable
from gradebook.tasks.judging.replies.recorded_judge import check_replies
from gradebook.tasks.judging.settings.embedder import Embedder, read_embedder
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import (
    Judge,
)
from gradebook.tasks.judging.settings.keys import refuse_unpaired_keys
from gradebook.tasks.judging.settings.learned import with_learned
from gradebook.tasks.judging.transport.probe import with_served_names
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.ledger.recordings import refuse_record
from gradebook.tasks.methods.embeddings import read_static_model
from gradebook.tasks.methods.function import probe_functions
from gradebook.tasks.methods.table import is_computed
from gradebook.tasks.planning.similarity import refuse_unnamed_baseline, similarity_criteria
from gradebook.tasks.ratings.evaluation_file import read_ratings
from gradebook.tasks.rubric_store.versions import find_rubric, refuse_changed_rubric, refuse_inactive_rubric
from gradebook.tasks.runs.function_settings import FunctionSettings, read_function_settings, refuse_other_functions
from gradebook.tasks.runs.quality_suites import ExpectationSuite, read_quality_suites
from gradebook.tasks.runs.request import EvaluationRequest, refuse_bad_values
from gradebook.tasks.runs.runner import read_runner, refuse_unreachable_server
from gradebook.tasks.stages.quality import refuse_bad_expectations

UNATTENDED = ("nightly", "checkpoint")  # triggers whose runs use active rubrics alone


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """Files and settings of a valid request."""

    rubric: Rubric
    judge: Judge | None
    files: tuple[Path, ...]
    lake: Lake
    functions: FunctionSettings
    embedder: Embedder | None = None
    suites: tuple[ExpectationSuite, ...] = ()  # the team's own suites


def check_request(request: EvaluationRequest) -> CheckedRequest:
    """Read and check everything that a request names, except the content of the outputs. Raises `InputError`."""
    refuse_bad_values(request)
    runner = read_runner(request.runner)
    lake = find_lake(request.lake, request.data)
    rubric = find_rubric(request.rubric, lake)
    suites = _read_suites(request)
    _refuse_unplaced_files(rubric)
    judge = None
    if request.judge:
        judge = with_served_names(with_learned(read_judge(request.judge, os.environ), lake.root))
    for recording in judge.recordings if judge else ():
        check_replies(recording.path, rubric.criteria)
    _refuse_unknown_criteria(rubric, judge)
    refuse_undecidable(rubric, judge)
    files = dataset_files(request.outputs)
    read_request_ratings(request, rubric, files)
    allowed, within = request.allow_functions, request.functions_within
    functions = read_function_settings(Path.cwd(), os.environ, allowed, within)
    if not request.allow_unscored:
        refuse_other_functions(rubric, functions)
    refuse_changed_rubric(lake, rubric)
    if request.trigger in UNATTENDED:
        refuse_inactive_rubric(lake, rubric)
    refuse_baseline(lake, rubric, judge, request)
    _refuse_unwritten_feedback(request, judge)
    for online in judge.online if judge else ():
        refuse_unpaired_keys(online, os.environ)
        if request.budget_usd is not None:
            refuse_unpriced(online, find_price(online))
    _refuse_batches(request, judge)
    _refuse_stop(request, rubric, judge)
    if request.record is not None:
        refuse_record(Path(request.record), judge)
    if any(map(is_computed, rubric.criteria)):  # a cluster scores only computed criteria
        refuse_unreachable_server(runner)
    probe_functions(rubric, functions)
    return CheckedRequest(rubric, judge, files, lake, functions, _read_embedder(request, rubric), suites)


def _read_suites(request: EvaluationRequest) -> tuple[ExpectationSuite, ...]:
    """Expectation suites of the team. Raises `ExpectationsError`."""
    if request.quality is None:
        return ()
    path = Path(request.quality)
    suites = read_quality_suites(path)
    refuse_bad_expectations(suites, path)
    return suites


def _read_embedder(request: EvaluationRequest, rubric: Rubric) -> Embedder | None:
    """Embedder of a request. Raises `InputError` if no criterion needs it, or its key or price is missing."""
    refuse_unnamed_baseline(rubric, request.baseline)
    embedder = read_embedder(request.embedder, os.environ)
    if embedder is not None and not similarity_criteria(rubric):
        raise InputError("--embedder", f"no criterion of the method similarity in {rubric.id}", "one, or no --embedder")
    if embedder is None:
        return None
    if embedder.folder is not None:
        read_static_model(embedder.folder)
        return embedder
    refuse_unpaired_keys(embedder.asking, os.environ)
    if request.budget_usd is not None:
        refuse_unpriced(embedder.asking, embedding_price(embedder.asking))
    return embedder


def refuse_bad_start(request: EvaluationRequest, checked: CheckedRequest) -> None:
    """Raise `OutputsError` if the first rows already show that the ingest will refuse the outputs.

    Skipped for nightly and triggered runs, which no terminal shows: the ingest refuses them and leaves a row.
    """
    if request.trigger != "manual":
        return
    fitter = RowFitter(
        request.column_map,
        taken_ids(checked.rubric),
        is_unscored_allowed=request.allow_unscored,
        checkpoint=request.checkpoint,
    )
    is_bare = not checked.rubric.criteria
    refuse_bad_rows(
        checked.files,
        fitter,
        request.column_map,
        request.max_bad_rate,
        needs_criteria=is_bare,
        trace_format=request.trace_format,
        model=request.row_model,
    )


def read_request_ratings(request: EvaluationRequest, rubric: Rubric, files: tuple[Path, ...]) -> pa.Table | None:
    """Ratings named by a request, or None. Raises `RatingsError`."""
    if not request.ratings:
        return None
    level_scores = partial(own_level_scores, files, request.column_map, request.trace_format, request.row_model)
    return read_ratings(Path(request.ratings), rubric, level_scores)


def _refuse_unplaced_files(rubric: Rubric) -> None:
    """Raise `RubricError` for a rubric in a lake that names files: they would be relative to the rubric's file."""
    expected = "expected the rubric's file, beside which it is looked for"
    faults = tuple(
        Fault(rubric.id, None, f"{criterion_id}: found the file that its setting {name} names, {expected}")
        for criterion_id, name in unreadable_files(rubric.criteria)
    )
    if faults:
        raise RubricError(faults)


def _refuse_unknown_criteria(rubric: Rubric, judge: Judge | None) -> None:
    """Raise `JudgeSettingsError` for a cascade that names a criterion without a judge: it would have no effect."""
    if judge is None or judge.when is None or not rubric.criteria:
        return
    judged = [criterion.id for criterion in rubric.asked_criteria]
    unknown = [name for name in judge.when.criteria if name not in judged]
    if unknown:
        expected = f"judged criteria of {rubric.id}: {', '.join(judged) or 'there are none'}"
        raise JudgeSettingsError("cascade.when.criteria", repr(unknown[0]), expected)


def _refuse_stop(request: EvaluationRequest, rubric: Rubric, judge: Judge | None) -> None:
    """Raise `InputError` for a rule that can't be read, or can't be followed."""
    if request.stop is None:
        return
    try:
        read_stop_rule(request.stop)
    except ValueError:
        raise InputError("--stop", repr(request.stop), STOP_EXPECTED) from None
    if request.baseline is None:
        raise InputError("--stop", "no --baseline", "a run to compare with, or latest")
    weights = effective_weights(rubric)
    if compared := [
        criterion.id
        for criterion in rubric.criteria
        if compares_with_baseline(criterion.method) and weights[criterion.id]
    ]:
        fault = f"{compared[0]}, which compares outputs with those of the baseline"
        raise InputError("--stop", fault, "scores that mean the same in both runs", "a weight of 0 leaves it out")
    if request.stratify is not None:
        raise InputError("--stop", "--stratify beside it", "one of the two", "the looks weigh all cases alike")
    if request.stop == "suite" and gate_rule(request.fail_if, request.require) is not None:
        raise InputError("--stop", "suite with a gate", "looks=N or always", "a gate asks about cases beyond the suite")
    if judge is not None and judge.is_batch:
        raise InputError("--stop", "a judge with `mode: batch`", "one that answers at once", "a look waits for replies")


def _refuse_unwritten_feedback(request: EvaluationRequest, judge: Judge | None) -> None:
    """Raise `InputError` for feedback that needs a judge to write it."""
    writer = judge.writer if request.feedback and judge is not None else None
    if request.feedback and judge is None:
        raise InputError("--feedback llm", "no --judge", "one to write it")
    if writer is not None and writer.is_decision:
        raise InputError("--feedback llm", f"{writer.judge}, which writes no text", "a judge that does")


def _refuse_batches(request: EvaluationRequest, judge: Judge | None) -> None:
    """Raise `InputError` for options that batches do not support, or that only batches support."""
    model = None if judge is None else judge.as_model
    is_batch = model is not None and model.mode == "batch"
    if request.deadline is not None and not is_batch:
        raise InputError("--deadline", "no judge with batch requests", "a judge file with `mode: batch`")
    if model is not None and is_batch and model.packing > 1:
        raise JudgeSettingsError("packing", str(model.packing), "1 with `mode: batch`")
