"""Retries of a flow run (PREFECT_FLOWS_DEFAULT_RETRIES): it resumes, and repeats nothing."""

from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import UnfinishedError
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import query, write_outputs, write_rubric

CASES = 6
CHECKS = """
id: short
version: 1.0.0
criteria:
  - id: length
    description: Short.
    method: {type: check, check: length_words, settings: {max: 9}}
"""
NIGHT = """
lake: sqlite:lake/catalog.sqlite
defaults: {outputs: outputs.jsonl}
suites:
  - {id: checked, rubric: short.yaml}
  - {id: judged, rubric: rubric.yaml, judge: judge.yaml}
"""


@pytest.fixture
def folder(tmp_path: Path, judge: LoopbackJudge) -> Path:
    """Outputs, and a judge with sequential requests."""
    write_outputs(tmp_path / "outputs.jsonl", CASES, models=("m",))
    write_rubric(tmp_path / "rubric.yaml")
    settings = f"model: gpt-4o-mini\nbase_url: {judge.base_url}\nmax_in_flight: 1\n"
    for name, text in (("judge.yaml", settings), ("short.yaml", CHECKS), ("suites.yaml", NIGHT)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run_deployed(flow: Any, name: str, parameters: dict[str, Any]) -> Any:
    """Run a flow in this process as a worker would for a deployment; returns the server's flow run."""
    from prefect import get_client
    from prefect.flow_engine import run_flow

    with get_client(sync_client=True) as client:
        deployment_id = client.create_deployment(client.create_flow(flow), name)
        flow_run = client.create_flow_run_from_deployment(deployment_id, parameters=parameters)
        state = run_flow(flow, flow_run=flow_run, parameters=parameters, return_type="state")
        return state, client.read_flow_run(flow_run.id)


@pytest.mark.nightly
@pytest.mark.server
def test_a_checkpoint_whose_judge_failed_for_a_while_is_decided_by_the_same_run(
    prefect_server, gradebook, judge, folder
):
    from gradebook.flows.evaluate_checkpoint import evaluate_checkpoint

    judge.faults = ["fine", "fine", "quota", "fine", "quota"]
    asked = {"model": "m", "outputs": "outputs.jsonl", "rubric": "rubric.yaml", "judge": "judge.yaml", "step": 7}
    state, flow_run = run_deployed(evaluate_checkpoint.with_options(retries=2), folder.name, asked)
    assert (state.is_completed(), flow_run.run_count, judge.answered_count) == (True, 3, CASES)
    (run,) = query(gradebook, "select run_id, status from runs")
    assert (run["status"], run["run_id"][-8:]) == ("published", flow_run.id.hex[:8])
    assert query(gradebook, "select count(*) as n from judgments") == [{"n": CASES}]


@pytest.mark.nightly
@pytest.mark.server
def test_a_retried_nightly_run_publishes_only_the_missing_runs(prefect_server, gradebook, judge, folder):
    from gradebook.flows.evaluate_nightly import evaluate_nightly

    judge.faults = ["fine", "fine", "quota"]
    flow = evaluate_nightly.with_options(retries=1)
    state, flow_run = run_deployed(flow, folder.name, {"suites": "suites.yaml"})
    assert (state.is_completed(), flow_run.run_count, judge.answered_count) == (True, 2, CASES)
    runs = query(gradebook, "select rubric_id, status from runs order by all")
    assert [(run["rubric_id"], run["status"]) for run in runs] == [
        ("short", "published"),
        ("short_answer", "published"),
    ]


@pytest.mark.nightly
@pytest.mark.server
def test_after_the_last_attempt_the_flow_run_has_failed_and_judgments_are_stored(
    prefect_server, gradebook, judge, folder
):
    from gradebook.flows.evaluate_checkpoint import evaluate_checkpoint

    judge.faults = ["fine", "quota", "fine", "quota", "quota"]
    asked = {"model": "m", "outputs": "outputs.jsonl", "rubric": "rubric.yaml", "judge": "judge.yaml", "step": 7}
    state, _ = run_deployed(evaluate_checkpoint.with_options(retries=2), folder.name, asked)
    with pytest.raises(UnfinishedError):
        state.result()
    decision = evaluate_checkpoint(**asked)  # the next request makes another run
    assert (decision.is_approved, judge.answered_count) == (True, CASES)


def test_a_death_reported_twice_counts_once_and_a_failed_attempt_is_not_a_death():
    from prefect.states import AwaitingRetry, Crashed, Pending, Running, Scheduled

    from gradebook.flows.deployment.names import death_count

    first = [Scheduled(), Pending(), Running(), Crashed(), AwaitingRetry(), Crashed(), AwaitingRetry()]
    assert death_count(first) == 1
    assert death_count([*first, Running(), AwaitingRetry(), Running(), Crashed()]) == 2
