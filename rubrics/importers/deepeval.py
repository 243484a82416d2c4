"""deepeval: test runs and data sets as outputs with the scores of their metrics, and G-Eval metrics as a rubric.

Shapes: deepeval/test_run/api.py of confident-ai/deepeval. Keys are in camel case in a test run's file, and in snake
case in what `evaluate()` returns and in data sets.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Self

from pydantic import AliasChoices, Field, model_validator

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, NonBlank, number_samples
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_rows
from gradebook.rubrics.importers.ids import DistinctIds, identifier
from gradebook.rubrics.importers.metadata import FIRST_VERSION, FieldCounts, as_metadata, drop_empty, mapping_or_empty
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.importers.results import Mark, as_score, import_results, model_step
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.text.plain_words import quote_value

NAME = "deepeval"
_CASES = ("testCases", "test_cases", "test_results", "testResults", "goldens")
_CONVERSATIONS = ("conversationalTestCases", "conversational_test_cases")
_G_EVAL = ("criteria", "evaluation_steps", "evaluationSteps")
_HIGHEST = 10  # highest score of G-Eval


def _snake_or_camel(snake: str) -> Any:
    """Field alias that accepts a name in snake or in camel case."""
    first, *rest = snake.split("_")
    return Field(default=None, validation_alias=AliasChoices(snake, first + "".join(map(str.capitalize, rest))))


class _Metric(OpenMapping):
    name: NonBlank
    score: Any = None
    threshold: Any = None
    success: bool | None = None
    reason: str | None = None
    error: str | None = None

    @property
    def mark(self) -> Mark:
        score = None if self.error else as_score(self.score)
        return Mark(self.name, score, self.reason or "", as_score(self.threshold))


class _Turn(OpenMapping):
    role: NonBlank
    content: str


class _Tool(OpenMapping):
    name: NonBlank
    input: Annotated[Any, Field(validation_alias=AliasChoices("input_parameters", "inputParameters", "input"))] = None
    output: Any = None


class _Case(OpenMapping):
    name: str | None = None
    input: Any = None
    actual_output: Annotated[str | None, _snake_or_camel("actual_output")]
    expected_output: Annotated[str | None, _snake_or_camel("expected_output")]
    context: list[str] | None = None
    retrieval_context: Annotated[list[str] | None, _snake_or_camel("retrieval_context")]
    metrics: Annotated[list[_Metric] | None, Field(validation_alias=AliasChoices("metrics_data", "metricsData"))] = None
    turns: list[_Turn] | None = None
    scenario: str | None = None
    tools: Annotated[list[_Tool] | None, Field(validation_alias=AliasChoices("tools_called", "toolsCalled"))] = None
    cost: Annotated[Any, Field(validation_alias=AliasChoices("token_cost", "tokenCost"))] = None
    seconds: Annotated[Any, Field(validation_alias=AliasChoices("completion_time", "completionTime"))] = None

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if not self.turns and self.input in (None, ""):
            raise ModelFault("invalid", "found no input and no turns, expected one of them", "input")
        return self


class _Steps(OpenMapping):
    score_range: Annotated[list[int], Field(min_length=2, max_length=2)]
    expected_outcome: NonBlank


class _GEval(OpenMapping):
    name: NonBlank
    criteria: str | None = None
    steps: Annotated[
        list[NonBlank] | None, Field(validation_alias=AliasChoices("evaluation_steps", "evaluationSteps"))
    ] = None
    rubric: list[_Steps] | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if not (self.criteria and self.criteria.strip()) and not self.steps:
            raise ModelFault("invalid", "found neither criteria nor evaluation_steps, expected one", "criteria")
        points = Counter(
            point for step in self.rubric or () for point in range(step.score_range[0], step.score_range[1] + 1)
        )
        if any(not 0 <= point <= _HIGHEST for point in points) or any(count > 1 for count in points.values()):
            raise ModelFault("invalid", f"found ranges that overlap or leave 0 to {_HIGHEST}, expected none", "rubric")
        return self


def read_deepeval(text: str, path: str) -> Imported:
    """Import a test run or data set with ratings by `deepeval`, or G-Eval metrics as a rubric. Raises `RubricError`."""
    rows = open_rows(text, path)
    if all(isinstance(row.value, dict) and any(key in row.value for key in _G_EVAL) for row in rows):
        return _import_metrics(rows)
    of_runs = [(entry, _model_of(row.value)) for row in rows for entry in _cases_in(row)]
    entries = [entry for entry, _ in of_runs]
    shaped = [case for entry in entries if (case := entry.fit(_Case, entry.value))]
    if not entries:
        rows[0].stop((), "found no test cases, expected at least one")
    entries[0].stop_at_faults()
    stored_fields = FieldCounts()
    named_cases = zip(shaped, _names(shaped), of_runs, strict=True)
    columns = [_row(case, name, model, stored_fields) for case, name, (_, model) in named_cases]
    marks = [[metric.mark for metric in case.metrics or ()] for case in shaped]
    return import_results(
        NAME, rows[0].within((), None), [*zip(number_samples(columns), marks, strict=True)], stored_fields
    )


def _cases_in(row: Reading) -> list[Reading]:
    """Test cases of a run, or the row itself if it is a test case."""
    if not isinstance(row.value, dict) or not any(key in row.value for key in (*_CASES, *_CONVERSATIONS)):
        return [row]
    cases = []
    for key in (*_CASES, *_CONVERSATIONS):
        listed = row.value.get(key)
        if listed is not None and not isinstance(listed, list):
            row.note((key,), f"found {quote_value(listed)}, expected a list of test cases")
        cases += [
            row.within((key, index), entry) for index, entry in enumerate(listed if isinstance(listed, list) else ())
        ]
    return cases


def _model_of(run: Any) -> str:
    """Model of a run, by its hyperparameters."""
    settings = mapping_or_empty(mapping_or_empty(run).get("hyperparameters"))
    models = (settings.get(key) for key in ("model", "Model", "model_name"))
    return next((name for name in models if isinstance(name, str) and name.strip()), UNKNOWN_MODEL)


def _names(cases: Sequence[_Case]) -> list[str]:
    """Name of each test case, or else its number; equal inputs with the same name are samples of one case."""
    inputs: dict[str, set[str]] = {}
    for case in cases:
        inputs.setdefault(case.name or "", set()).add(json.dumps(case.input, sort_keys=True))
    is_own = {name for name, case_inputs in inputs.items() if name.strip() and len(case_inputs) == 1}
    return [str(case.name) if case.name in is_own else f"case_{number}" for number, case in enumerate(cases, start=1)]


def _row(case: _Case, name: str, model: str, stored_fields: FieldCounts) -> Row:
    question = case.input if isinstance(case.input, str) else json.dumps(case.input, ensure_ascii=False)
    prompt: Any = question if question.strip() else None
    output = case.actual_output
    if case.turns:
        prompt, output = _split_turns(case.turns)
    used = ("success", "order", "runDuration", "run_duration", "evaluationCost", "evaluation_cost", "conversational")
    extra = stored_fields.note_all(
        "", drop_empty({**case.unknown_keys_with("scenario"), **_unused_context(case)}, used)
    )
    seconds = case.seconds
    latency = seconds * 1000 if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None
    counts = [mapping_or_empty(case.model_extra).get(key) for key in ("inputTokenCount", "outputTokenCount")]
    tokens = sum(count for count in counts if isinstance(count, int)) if any(counts) else None
    tools = [
        {"kind": "tool", "name": tool.name, **drop_none({"input": tool.input, "output": tool.output})}
        for tool in case.tools or ()
    ]
    call = model_step(model, tokens=tokens, cost_usd=case.cost, latency_ms=latency).get("steps", [])
    answered = {} if output is None else {"model": model, "output": output, **drop_empty({"steps": [*tools, *call]})}
    context = case.retrieval_context or case.context
    return {
        "case_id": name,
        **answered,
        **drop_none({"prompt": prompt, "reference": case.expected_output, "context": context or None}),
        **as_metadata(NAME, extra),
    }


def _unused_context(case: _Case) -> Row:
    return {"context": case.context} if case.retrieval_context and case.context != case.retrieval_context else {}


def _split_turns(turns: Sequence[_Turn]) -> tuple[list[Row] | None, str | None]:
    """Messages before the assistant's last turn, and its text."""
    last = max((index for index, turn in enumerate(turns) if turn.role == "assistant"), default=None)
    before = turns if last is None else turns[:last]
    return [{"role": turn.role, "content": turn.content} for turn in before] or None, None if last is None else turns[
        last
    ].content


# -------- G-Eval
def _import_metrics(rows: Sequence[Reading]) -> Imported:
    shaped = [metric for row in rows if (metric := row.fit(_GEval, row.value))]
    rows[0].stop_at_faults()
    stored_fields, ids = FieldCounts(), DistinctIds()
    rubric: Row = {
        "id": identifier(PurePath(rows[0].path).stem, "rubric"),
        "version": FIRST_VERSION,
        "criteria": [_criterion(metric, ids.take(metric.name), stored_fields) for metric in shaped],
    }
    return rows[0].within((), None).finish(rubric, stored_fields)


def _criterion(metric: _GEval, criterion_id: str, stored_fields: FieldCounts) -> Row:
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(metric.steps or (), start=1))
    question = (metric.criteria or "").strip()
    points = {str(point): description for point, description in _points(metric)}
    return {
        "id": criterion_id,
        **drop_empty({"name": metric.name if metric.name != criterion_id else None}),
        "description": question or steps,
        "weight": 1,
        **drop_none({"threshold": metric.threshold}),
        "scale": {"min": 0, "max": _HIGHEST, **drop_empty({"points": points})},
        "method": {"type": "judge", **drop_empty({"guidance": steps if question else ""})},
        **as_metadata(NAME, stored_fields.note_all("", metric.unknown_keys)),
    }


def _points(metric: _GEval) -> Iterator[tuple[int, str]]:
    for step in metric.rubric or ():
        lowest, highest = step.score_range
        yield from ((point, step.expected_outcome) for point in range(lowest, highest + 1))


SUMMARY = "test runs and data sets of deepeval, and its G-Eval metrics"
FORMAT = Format(NAME, SUMMARY, ".json", "results", read_deepeval)
