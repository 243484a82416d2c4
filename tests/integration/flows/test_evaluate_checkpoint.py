"""Checkpoints evaluated, decided, swept, and requested once from a real Prefect server."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradebook.flows.deployment import notify
from gradebook.rubrics.model.errors import InputError, RubricError
from gradebook.tasks.operations.checkpoint import CheckpointDecision, CheckpointRequest, decide_checkpoint
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.submit import StagesInThreads
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.samples import query, write_lines
from tests.support.saved_checkpoints import deploy_checkpoint, write_brief_rubric, write_checkpoint

NOWHERE = "http://127.0.0.1:9/api"  # the port of "discard": nothing listens


@pytest.fixture
def rubric(tmp_path: Path) -> str:
    return str(write_brief_rubric(tmp_path))


def decide(model: str, outputs: str, rubric: str, step: int | None = None, **more: Any) -> CheckpointDecision:
    """Decide about a checkpoint without Prefect. more: of the request, or options of the evaluation."""
    own = {name: more.pop(name) for name in ("prompts", "endpoint", "series") if name in more}
    evaluation = EvaluationRequest(outputs, rubric, **more)
    return decide_checkpoint(CheckpointRequest(evaluation, model, step=step, **own), StagesInThreads())


@pytest.fixture
def deployment(prefect_server: str, tmp_path: Path) -> str:
    """Deployment of the flow; each test has its own."""
    return deploy_checkpoint(tmp_path.name)


async def artifacts_of(title: str) -> list[str]:
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    async with get_client() as client:
        chosen = ArtifactFilter(key=ArtifactFilterKey(any_=["brief-checkpoint"]))
        return [found.data for found in await client.read_artifacts(artifact_filter=chosen) if title in found.data]


async def put(flow_run_id: str, state: Any) -> None:
    """Set the state of a flow run, as its process or the server would."""
    from prefect import get_client

    async with get_client() as client:
        await client.set_flow_run_state(flow_run_id, state, force=True)


@pytest.mark.nightly
def test_a_checkpoint_may_be_decided_by_a_sample_of_its_cases(gradebook, rubric, tmp_path):
    outputs = str(write_checkpoint(tmp_path / "step-7.jsonl", 6))
    decide(model="m", outputs=outputs, rubric=rubric, step=7, sample=1)
    (run,) = query(gradebook, "select output_count, notes[1] as note from runs")
    assert (run["output_count"], run["note"]) == (1, "a random sample of 1 of 12 cases, seed 0")


@pytest.mark.server
def test_a_checkpoint_is_decided_once_and_shown(gradebook, rubric, tmp_path):
    from gradebook.flows.evaluate_checkpoint import evaluate_checkpoint

    outputs = str(write_checkpoint(tmp_path / "step-7.jsonl", 6))
    asked = {"model": "m", "outputs": outputs, "rubric": rubric, "step": 7}
    first, again = (evaluate_checkpoint(**asked) for _ in range(2))
    assert (first.row["status"], first.row["checkpoint"], first.is_new, again.is_new) == ("approved", "7", True, False)
    assert query(gradebook, "select trigger, status from runs") == [{"trigger": "checkpoint", "status": "published"}]
    assert gradebook("suite", "checkpoints", "--json").json["checkpoints"][0]["run_id"] == first.row["run_id"]
    texts = asyncio.run(artifacts_of(first.row["run_id"]))
    assert sorted("earlier decision" in text for text in texts) == [False, True]


def test_the_command_decides_and_the_sweep_finds_and_decides_the_others(gradebook, rubric, tmp_path):
    for step, good_count in ((7, 6), (8, 2), (9, 12)):
        write_checkpoint(tmp_path / f"saved/step-{step}.jsonl", good_count)
    words = ["--model", "m", "--rubric", rubric]
    first = gradebook("suite", "checkpoint", "saved/step-7.jsonl", "--step", "7", *words)
    assert (first.code, "m @ 7: approved" in first.out, "mean 0.500" in first.out) == (0, True, True), first.err
    again = gradebook("suite", "checkpoint", "saved/step-7.jsonl", "--step", "7", *words)
    assert (again.code, "decided earlier; nothing was evaluated again" in again.out) == (0, True)
    assert gradebook("suite", "checkpoint", "saved/step-8.jsonl", "--step", "8", *words).code == 1
    swept = gradebook("suite", "sweep", "saved", *words, "--evaluate", "--param", "require=mean_diff > 0", "--json")
    assert (swept.code, swept.json["found_count"], len(swept.json["undecided"])) == (0, 3, 1), swept.err
    (decision,) = swept.json["decisions"]
    assert (decision["checkpoint"], decision["status"]) == ("9", "approved")
    assert len(gradebook("suite", "checkpoints", "--json").json["checkpoints"]) == 3
    unknown = gradebook("suite", "sweep", "saved", *words, "--evaluate", "--param", "folders=x")
    assert (unknown.code, "--param: found 'folders'" in unknown.err) == (2, True)


@pytest.mark.nightly
def test_outputs_of_a_served_checkpoint_are_collected_first(gradebook, rubric, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    prompts = write_lines(tmp_path / "prompts.jsonl", [{"case": f"c{n}", "prompt": f"Say {n}."} for n in range(6)])
    asked = {"model": "m", "outputs": str(tmp_path / "collected.jsonl"), "rubric": rubric, "step": 8}
    with LoopbackJudge() as server:
        server.writer = lambda _body: "one two three"
        (tmp_path / "endpoint.yaml").write_text(f"model: served\nbase_url: {server.base_url}\n", encoding="utf-8")
        served = {"prompts": str(prompts), "endpoint": str(tmp_path / "endpoint.yaml")}
        served |= {"column_map": {"case_id": "case"}}  # for the prompts
        decided, again = (decide(**asked, **served) for _ in range(2))
        assert server.answered_count == 6
    assert (decided.row["status"], decided.row["mean"], again.is_new) == ("approved", 1.0, False)
    collected = query(gradebook, "select distinct model, checkpoint, output from outputs")
    assert collected == [{"model": "m", "checkpoint": "8", "output": "one two three"}]


@pytest.mark.parametrize(
    ("outputs", "prompts", "endpoint", "said"),
    [
        ("/etc/passwd", None, None, "found '/etc/passwd' in an event, which lies outside"),
        ("in/../../x.jsonl", None, None, "lies outside"),
        ("link/*.jsonl", None, None, "lies outside"),
        ("in/new.jsonl", "/etc/hostname", "m", "found '/etc/hostname' in an event"),
        ("in/new.jsonl", "in/p.jsonl", "/etc/e.yaml", "found '/etc/e.yaml' in an event"),
        ("in/new.jsonl", "in/p.jsonl", "in/key.yaml", "which names a key, expected one without `key`"),
    ],
)
@pytest.mark.parametrize("has_folders", [True, False])
def test_an_event_names_paths_in_the_folders_alone_and_no_key(
    tmp_path, monkeypatch, has_folders, outputs, prompts, endpoint, said
):
    from gradebook.flows.evaluate_checkpoint import refuse_outside_paths

    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "in" / "key.yaml").write_text("model: m\nkey: env:AWS_SECRET_ACCESS_KEY\n", encoding="utf-8")
    (tmp_path / "in" / "fine.yaml").write_text("model: m\n", encoding="utf-8")
    folders = [str(tmp_path / "in")] if has_folders else None
    with pytest.raises(InputError, match=said):
        refuse_outside_paths((outputs, prompts), endpoint, folders)
    refuse_outside_paths(("in/*.jsonl", str(tmp_path / "in" / "p.jsonl")), "in/fine.yaml", folders)


def test_prompts_without_an_endpoint_are_refused(rubric, tmp_path):
    asked = {"model": "m", "outputs": "o.jsonl", "rubric": rubric, "prompts": "prompts.jsonl"}
    with pytest.raises(InputError, match="endpoint: found none beside prompts, expected both"):
        decide(**asked)


@pytest.mark.server
def test_a_checkpoint_is_requested_once(deployment, gradebook, tmp_path):
    outputs = str(write_checkpoint(tmp_path / "step-7.jsonl", 6))
    words = ["suite", "notify", outputs, "--model", "m", "--step", "7", "--deployment", deployment, "--json"]
    first, again = (gradebook(*words).json for _ in range(2))
    assert (first["is_new"], again["is_new"], again["flow_run_id"]) == (True, False, first["flow_run_id"])
    assert first["flow_run_id"] in first["url"]
    default, other = (gradebook(*words, "--param", f"rubric={name}").json for name in ("brief@1.0.0", "other"))
    assert (default["is_new"], other["is_new"]) == (False, True)
    write_checkpoint(tmp_path / "step-7.jsonl", 7)
    assert gradebook(*words).json["is_new"]


async def parameters_of(flow_run_id: str) -> dict[str, Any]:
    from prefect import get_client

    async with get_client() as client:
        return (await client.read_flow_run(flow_run_id)).parameters


SERVED = ["suite", "notify", "new.jsonl", "--model", "m", "--prompts", "prompts.jsonl", "--endpoint", "e.yaml"]


@pytest.mark.server
def test_outputs_to_collect_need_not_exist_and_are_requested_once(deployment, gradebook, tmp_path):
    write_lines(tmp_path / "prompts.jsonl", [{"case_id": "c", "prompt": "Why?"}])
    (tmp_path / "e.yaml").write_text("model: served\n", encoding="utf-8")
    words = [*SERVED, "--step", "7", "--deployment", deployment, "--json"]
    first = gradebook(*words).json
    given = asyncio.run(parameters_of(first["flow_run_id"]))
    names = {"outputs": "new.jsonl", "prompts": "prompts.jsonl", "endpoint": "e.yaml"}
    assert {name: given[name] for name in names} == {name: str(tmp_path / file) for name, file in names.items()}
    (tmp_path / ".new.jsonl.journal").mkdir()
    write_checkpoint(tmp_path / "new.jsonl", 6)  # as if it had been collected
    again = gradebook(*words).json
    write_lines(tmp_path / "prompts.jsonl", [{"case_id": "c", "prompt": "How?"}])
    assert (first["is_new"], again["is_new"], gradebook(*words).json["is_new"]) == (True, False, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (SERVED, "checkpoint: found neither a checkpoint nor a step"),
        ([*SERVED[:-2], "--step", "7"], "endpoint: found none beside prompts"),
        (["suite", "notify", "new.csv", *SERVED[3:], "--step", "7"], "outputs: found 'new.csv', expected a name"),
        (["suite", "notify", "old.jsonl", *SERVED[3:], "--step", "7"], "old.jsonl already there, not collected"),
        ([*SERVED, "--step", "7"], "e.yaml: found a file or folder that can't be read"),
    ],
)
def test_an_impossible_collection_is_refused_before_a_server_is_asked(gradebook, tmp_path, words, sentence):
    write_lines(tmp_path / "prompts.jsonl", [{"case_id": "c", "prompt": "Why?"}])
    write_checkpoint(tmp_path / "old.jsonl", 6)
    finished = gradebook(*words)
    assert (finished.code, sentence in finished.err) == (2, True), finished.err


def test_nothing_is_collected_for_a_missing_rubric(tmp_path, monkeypatch):
    prompts = write_lines(tmp_path / "prompts.jsonl", [{"case_id": "c", "prompt": "Why?"}])
    asked = {"model": "m", "outputs": str(tmp_path / "o.jsonl"), "rubric": "gone.yaml", "step": 8}
    with LoopbackJudge() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with pytest.raises(RubricError, match=r"gone\.yaml"):
            decide(**asked, prompts=str(prompts), endpoint="served")
        assert server.request_count == 0


@pytest.mark.server
def test_a_crashed_flow_run_that_is_not_resumed_is_followed_by_one_other(deployment, gradebook, tmp_path, monkeypatch):
    from prefect.states import Crashed

    outputs = str(write_checkpoint(tmp_path / "step-7.jsonl", 6))
    words = ["suite", "notify", outputs, "--model", "m", "--step", "7", "--deployment", deployment, "--json"]
    first = gradebook(*words).json
    asyncio.run(put(first["flow_run_id"], Crashed()))
    soon = gradebook(*words).json
    assert (soon["flow_run_id"], soon["is_new"], soon["is_given_up"]) == (first["flow_run_id"], False, False)
    monkeypatch.setattr(notify, "TAKEN_UP_S", 0)
    second, third = (gradebook(*words).json for _ in range(2))
    assert second["flow_run_id"] == third["flow_run_id"] != first["flow_run_id"]


@pytest.mark.server
def test_after_five_failed_flow_runs_no_other_is_created_and_the_message_says_so(deployment, gradebook, tmp_path):
    from prefect.states import Failed

    outputs = str(write_checkpoint(tmp_path / "step-7.jsonl", 6))
    words = ["suite", "notify", outputs, "--model", "m", "--step", "7", "--deployment", deployment]
    for _ in range(5):
        asyncio.run(put(gradebook(*words, "--json").json["flow_run_id"], Failed()))
    told = gradebook(*words)
    sentence, page = told.out.splitlines()
    assert (told.code, sentence.endswith("now Failed; 5 flow runs failed, so no other is created")) == (3, True)
    assert page.startswith("http")


@pytest.mark.server
def test_a_missing_deployment_is_bad_input(prefect_server, gradebook, tmp_path):
    outputs = str(write_checkpoint(tmp_path / "o.jsonl", 6))
    finished = gradebook("suite", "notify", outputs, "--model", "m", "--deployment", "evaluate-checkpoint/none")
    assert finished.code == 2
    assert "--deployment: found no 'evaluate-checkpoint/none' on http://127.0.0.1" in finished.err


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        (NOWHERE, 3, f"notify: no Prefect server answers at {NOWHERE}"),
        *matrix([(None, 2, "PREFECT_API_URL: found none")]),
    ],
)
def test_without_a_server_a_training_job_gets_an_error_and_none_is_started(tmp_path, address, code, words):
    outputs = str(write_checkpoint(tmp_path / "o.jsonl", 6))
    command = [sys.executable, "-m", "gradebook.flows.cli", "suite", "notify", outputs, "--model", "m"]
    settings = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    settings |= {"PREFECT_HOME": str(tmp_path / "home")} | ({"PREFECT_API_URL": address} if address else {})
    finished = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=100, check=False)
    assert (finished.returncode, words in finished.stderr) == (code, True), finished.stderr
    assert not list((tmp_path / "home").glob("prefect.db*"))


@pytest.mark.parametrize("param", ["rubric", "=5"])
def test_an_invalid_parameter_is_refused(gradebook, tmp_path, param):
    finished = gradebook("suite", "notify", "o.jsonl", "--model", "m", "--param", param)
    assert (finished.code, f"--param: found {param!r}" in finished.err) == (2, True)


@pytest.mark.nightly
@pytest.mark.server
def test_the_gate_s_event_comes_back_from_the_server(rubric, tmp_path, monkeypatch):
    from prefect.events.clients import get_events_subscriber
    from prefect.events.filters import EventFilter, EventNameFilter

    from gradebook.flows.evaluate_checkpoint import evaluate_checkpoint

    monkeypatch.chdir(tmp_path)
    outputs = str(write_checkpoint(tmp_path / "step-9.jsonl", 2))

    async def listen() -> Any:
        chosen = EventFilter(event=EventNameFilter(prefix=["gradebook.gate."]))
        async with get_events_subscriber(filter=chosen) as events:
            running = asyncio.create_task(
                asyncio.to_thread(evaluate_checkpoint, model="m", outputs=outputs, rubric=rubric, step=9)
            )
            async with asyncio.timeout(120):
                return await anext(aiter(events)), await running

    event, decision = asyncio.run(listen())
    assert (event.event, event.resource.id) == ("gradebook.gate.failed", "training.m")
    assert event.payload == json.loads(json.dumps(decision.as_json()))


@pytest.mark.server
def test_the_event_of_a_notice_names_the_saved_checkpoint(deployment, tmp_path):
    from prefect.events.clients import get_events_subscriber
    from prefect.events.filters import EventFilter, EventNameFilter

    from gradebook.flows.deployment.notify import notify_checkpoint

    outputs = str(write_checkpoint(tmp_path / "step-7.jsonl", 6))

    async def listen() -> Any:
        async with get_events_subscriber(
            filter=EventFilter(event=EventNameFilter(name=["checkpoint.saved"]))
        ) as events:
            telling = asyncio.to_thread(notify_checkpoint, outputs, "m", step=7, deployment=deployment, has_event=True)
            await telling
            async with asyncio.timeout(60):
                return await anext(aiter(events))

    event = asyncio.run(listen())
    assert event.resource.id == "training.m"
    assert event.payload == {"model": "m", "checkpoint": None, "step": 7, "outputs": outputs}
