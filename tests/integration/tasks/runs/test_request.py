"""Options of an evaluation: the same on the command line, in flows, in suites and in the resume command."""

import inspect
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import typer
from prefect.utilities.callables import parameter_schema

from gradebook.flows.commands.evaluate import evaluate
from gradebook.flows.evaluate_checkpoint import evaluate_checkpoint
from gradebook.flows.evaluate_outputs import evaluate_outputs
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.operations.suites import SuiteSettings
from gradebook.tasks.runs.request import (
    OPTIONS,
    EvaluationRequest,
    Option,
    Use,
    json_values,
    options_of,
    read_request,
    refuse_bad_values,
)
from gradebook.tasks.runs.resume_command import option_words
from tests.support.law_over import law_over

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
app = typer.Typer()
app.command()(evaluate)
COMMAND: Any = typer.main.get_command(app)
# Parameters of existing deployments: none may be renamed.
OUTPUTS_PARAMETERS = [
    "outputs",
    "rubric",
    "judge",
    "ratings",
    "lake",
    "data",
    "run_id",
    "budget_usd",
    "max_bad_rate",
    "column_map",
    "trace_format",
    "allow_unscored",
    "feedback",
    "trigger",
    "allow_functions",
    "record",
    "deadline",
    "baseline",
    "require",
    "fail_if",
    "runner",
    "stop",
]
CHECKPOINT_PARAMETERS = [
    "model",
    "outputs",
    "rubric",
    "checkpoint",
    "step",
    "judge",
    "require",
    "fail_if",
    "ratings",
    "lake",
    "data",
    "budget_usd",
    "max_bad_rate",
    "column_map",
    "trace_format",
    "allow_unscored",
    "allow_functions",
    "prompts",
    "endpoint",
    "samples",
    "collect_budget_usd",
]
SUITE_KEYS = [
    "outputs",
    "rubric",
    "judge",
    "ratings",
    "baseline",
    "require",
    "fail_if",
    "budget_usd",
    "max_bad_rate",
    "column_map",
    "trace_format",
    "allow_unscored",
    "feedback",
    "allow_functions",
    "deadline",
    "embedder",
    "stop",
]
WANTED = EvaluationRequest(
    "outputs.jsonl",
    "rubric.yaml",
    "judge.yaml",
    embedder="embedder.yaml",
    ratings="ratings.csv",
    column_map={"output": "response", "case_id": "id"},
    trace_format="chat",
    model="small",
    max_bad_rate=0.5,
    allow_unscored=True,
    allow_functions=("mine", "yours"),
    budget_usd=2.5,
    quality="quality.json",
    suites=True,
    feedback="llm",
    deadline=NOW,
    record="replies.jsonl",
    baseline="latest",
    models="all",
    require="not_worse_by(0.02)",
    fail_if="mean_diff < 0",
    stop="looks=10,pocock",
    across_judges=True,
    gate="baseline",
    runner="dask",
    sample=3,
    stratify="topic",
)


def typed(words: list[str]) -> EvaluationRequest:
    """Request that `gradebook evaluate` makes from these words."""
    given = COMMAND.make_context("evaluate", words).params
    return read_request({name: given[name] for name in OPTIONS if name in given}, NOW)


def schema_of(flow: Any) -> dict[str, Any]:
    return parameter_schema(flow.fn).properties


def test_the_resume_command_makes_the_same_request():
    assert typed(option_words(WANTED, options_of(Use.RESUME))) == WANTED


def test_the_resume_command_has_each_option_for_it():
    plain = EvaluationRequest("", "")
    same = [each.name for each in options_of(Use.RESUME) if getattr(WANTED, each.name) == getattr(plain, each.name)]
    assert same == []


def test_the_resume_command_omits_defaults():
    request = EvaluationRequest("outputs.jsonl", "rubric.yaml")
    assert option_words(request, options_of(Use.RESUME)) == ["outputs.jsonl", "--rubric", "rubric.yaml"]


def test_a_flow_makes_the_same_request_of_its_parameters():
    request = replace(WANTED, run_id="a", trigger="demo", lake="sqlite:x", data="y")
    assert read_request(json_values(request, Use.OUTPUTS_FLOW), NOW) == request


@pytest.mark.parametrize(
    ("flow", "expected"), [(evaluate_outputs, OUTPUTS_PARAMETERS), (evaluate_checkpoint, CHECKPOINT_PARAMETERS)]
)
def test_a_flow_has_all_parameters_of_its_deployments(flow, expected):
    assert [name for name in expected if name not in schema_of(flow)] == []


def test_a_suite_has_all_its_keys():
    assert [name for name in SUITE_KEYS if name not in SuiteSettings.model_fields] == []


def test_the_form_of_a_deployment_says_what_each_parameter_is_and_may_be():
    form = schema_of(evaluate_outputs)
    assert [name for name, words in form.items() if not words.get("description")] == []
    assert (form["max_bad_rate"]["minimum"], form["max_bad_rate"]["maximum"]) == (0, 1)
    assert form["budget_usd"]["anyOf"] == [{"minimum": 0, "type": "number"}, {"type": "null"}]
    assert form["feedback"]["anyOf"][0]["const"] == "llm"
    assert form["trigger"]["enum"] == ["manual", "demo", "nightly", "checkpoint", "sweep"]
    assert form["allow_unscored"] == form["allow_unscored"] | {"type": "boolean", "default": False}
    assert parameter_schema(evaluate_outputs.fn).required == ["outputs", "rubric"]


def test_the_form_of_a_checkpoint_begins_with_what_it_requires():
    assert list(schema_of(evaluate_checkpoint))[:3] == ["model", "outputs", "rubric"]
    assert [name for name, words in schema_of(evaluate_checkpoint).items() if not words.get("description")] == []


def test_the_command_line_takes_the_options_by_their_flags_with_their_help():
    shown = {param.name: param for param in COMMAND.params}
    for option in options_of(Use.COMMAND):
        assert option.help in shown[option.name].help
        assert option.is_argument or option.flag in shown[option.name].opts


@law_over(
    ("changed", "message"),
    [
        ({"max_bad_rate": 7.0}, "--max-bad-rate: found 7, expected a share of 0 to 1"),
        ({"max_bad_rate": float("nan")}, "--max-bad-rate: found nan, expected a share"),
        ({"budget_usd": -1.0}, "--budget-usd: found -1, expected dollars, 0 or more"),
        ({"budget_usd": float("inf")}, "--budget-usd: found inf, expected dollars"),
        ({"feedback": "human"}, "--feedback: found 'human', expected llm, or no --feedback at all"),
        ({"feedback": ""}, "--feedback: found '', expected llm"),
        ({"gate": "all"}, "--gate: found 'all', expected one of both, rubric, baseline, none"),
        ({"judge": " "}, "--judge: found an empty text, expected a value, or no --judge at all"),
        ({"fail_if": ""}, "--fail-if: found an empty text"),
        ({"sample": 0}, "--sample: found 0, expected a number of cases, 1 or more"),
        ({"stratify": "topic"}, "--stratify: found no --sample, expected the number of cases to draw"),
        ({"run_id": "a/b"}, "--run-id: found 'a/b', expected up to 80 letters"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(changed, message):
    with pytest.raises(InputError) as refused:
        refuse_bad_values(replace(EvaluationRequest("o", "r"), **changed))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("changed", [{}, {"runner": ""}, {"budget_usd": 0.0}, {"max_bad_rate": 1.0}, {"sample": 1}])
def test_a_value_at_a_bound_is_allowed(changed):
    refuse_bad_values(replace(EvaluationRequest("o", "r"), **changed))


def test_every_option_has_a_help_text_and_a_use():
    assert [option.name for option in OPTIONS.values() if not option.help or not option.use] == []


def test_a_bounded_option_has_an_expected_text():
    def is_bounded(option: Option) -> bool:
        return option.least is not None or option.most is not None

    assert [option.name for option in OPTIONS.values() if is_bounded(option) and not option.expected] == []


def test_flow_signatures_have_only_options_and_the_flow_s_own_parameters():
    own = {
        "model",
        "checkpoint",
        "step",
        "reference",
        "series",
        "prompts",
        "endpoint",
        "samples",
        "collect_budget_usd",
    } | {
        "from_event",
        "folders",
    }
    found = set(inspect.signature(evaluate_checkpoint.fn).parameters) - own
    assert found == {option.name for option in options_of(Use.CHECKPOINT_FLOW)}


def test_a_small_budget_is_written_without_an_exponent():
    request = EvaluationRequest("outputs.jsonl", "rubric.yaml", budget_usd=1e-05)
    assert option_words(request, options_of(Use.RESUME))[-2:] == ["--budget-usd", "0.00001"]
