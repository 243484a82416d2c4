"""Prefect's view of a run: names, states, artifacts and deployments; and runs without a network."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from gradebook.flows.deployment.automations import AUTOMATIONS, GATES_NOT_MET
from gradebook.tasks.stages.quality import refuse_bad_expectations, shipped_suites
from tests.support.loopback_judge import LoopbackJudge
from tests.support.prefect_homes import on_server, person, processes_of
from tests.support.samples import write_outputs, write_rubric

ROOT = Path(__file__).parents[3]
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]
GRADEBOOK = [sys.executable, "-m", "gradebook.flows.cli"]


KEYS = {"short-answer-scores", "short-answer-costs", "short-answer-report"}


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | Path]]:
    """Words after `gradebook evaluate`; each test has its own folder, and so its own flow-run name."""
    with LoopbackJudge(key="let-in") as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "let-in")
        outputs, rubric = write_outputs(tmp_path / f"{tmp_path.name}.jsonl"), write_rubric(tmp_path / "rubric.yaml")
        yield [outputs, "--rubric", rubric, "--judge", "gpt-4o-mini"]


async def read_run(name: str, last_task: str | None):
    """Flow run whose name begins so, its task runs and its artifacts, after the last task run is recorded."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    async with get_client() as client:
        (run,) = await client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(like_=name)))
        chosen = FlowRunFilter(id={"any_": [run.id]})
        for _ in range(100):  # the server records task runs a moment after they end
            tasks = await client.read_task_runs(flow_run_filter=chosen)
            is_recorded = last_task is None or last_task in {task.name for task in tasks}
            if is_recorded and all(task.state and (task.state.is_final() or is_given_up(task)) for task in tasks):
                break
            await asyncio.sleep(0.1)
        artifacts = await client.read_artifacts(flow_run_filter=chosen)
    return run, tasks, artifacts


def is_given_up(task) -> bool:
    """Whether a task never runs, as one that it waits for has failed."""
    return task.state.name == "NotReady"


def rows_of(text: str) -> list[list[str]]:
    """Cells of the tables in a Markdown text."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


@pytest.mark.server
def test_an_evaluation_leaves_its_names_states_and_artifacts(evaluate, words):
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    run, tasks, artifacts = asyncio.run(read_run(f"rubric over {words[0].name}: large, small", "report"))
    assert run.state.is_completed() and run.name.endswith(f": {finished.json['verdict']['word']}")
    assert {"ingest", "plan", "clarity · shard 0", "length · shard 0", "publish"} <= {task.name for task in tasks}
    assert all(task.state.is_completed() for task in tasks)
    assert {artifact.key for artifact in artifacts} == {
        f"short-answer-{kind}" for kind in ("scores", "costs", "report")
    }
    (scores,) = [artifact.data for artifact in artifacts if artifact.key == "short-answer-scores"]
    means = {row["model"]: f"{row['mean']:.3f}" for row in finished.json["scores"]}
    assert {row[0]: row[3] for row in rows_of(scores) if row[0] in means} == means


@pytest.mark.nightly
@pytest.mark.server
def test_an_evaluation_with_a_baseline_shows_the_comparison(evaluate, words):
    earlier = shutil.copy(words[0], words[0].with_name("earlier.jsonl"))
    rule = ["--baseline", "latest", "--fail-if", "mean_diff <= 0"]
    first, again = (evaluate(outputs, *words[1:], *rule) for outputs in (earlier, words[0]))
    assert (first.code, first.json["comparison"], again.code) == (0, None, 1), again.err
    assert again.json["unmet"][0].startswith("gate failed: required not (mean_diff <= 0), found large: mean_diff = 0")
    _, _, artifacts = asyncio.run(read_run(f"rubric over {words[0].name}: large, small", "report"))
    (comparison,) = [artifact.data for artifact in artifacts if artifact.key == "short-answer-comparison"]
    overall = [(row[0], row[5]) for row in rows_of(comparison) if row[1] == "overall"]
    assert overall == [("large", "+0.000"), ("small", "+0.000")]


@pytest.mark.nightly
@pytest.mark.server
def test_a_rescored_run_leaves_its_scores_and_costs(evaluate, words):
    from gradebook.flows.rescore_run import rescore_run

    published = evaluate(*words).json["run_id"]
    heavier = write_rubric(words[2].with_name("heavier.yaml"), version="1.1.0", weight=3)
    summary = rescore_run(run=published, rubric=str(heavier))
    _, _, artifacts = asyncio.run(read_run(f"{published} by {heavier}", None))
    assert {artifact.key for artifact in artifacts} == {
        f"short-answer-{kind}" for kind in ("scores", "costs", "report")
    }
    (scores,) = [artifact.data for artifact in artifacts if artifact.key == "short-answer-scores"]
    assert ["large", f"{summary.scores[0]['mean']:.3f}"] in [
        [row[0], row[3]] for row in rows_of(scores) if len(row) > 3
    ]


@pytest.mark.server
def test_a_failed_evaluation_is_a_failed_flow_run(evaluate, words, monkeypatch):
    with LoopbackJudge(key="let-in", faults=("quota",)) as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        assert evaluate(*words).code == 3
    run, _, artifacts = asyncio.run(read_run(f"rubric over {words[0].name}", "plan"))
    assert run.state.is_failed()
    assert [artifact.key for artifact in artifacts if artifact.key] == []


def call(command: list[str], folder: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run a command without a checkout on the path, so that the installed gradebook is used."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | settings
    return subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.fixture(scope="module")
def deployed(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder from which the shipped prefect.yaml was deployed."""
    folder = tmp_path_factory.mktemp("deployed")
    shutil.copy(ROOT / "prefect.yaml", folder)
    with on_server(prefect_server):
        asyncio.run(create_work_pool("gradebook"))
        done = call([*PREFECT, "deploy", "--all"], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


async def create_work_pool(name: str) -> None:
    """As `prefect work-pool create --type process`, which takes seconds to start."""
    from prefect import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    async with get_client() as client:
        await client.create_work_pool(WorkPoolCreate(name=name, type="process", base_job_template=template))


async def read_deployment(name: str):
    from prefect import get_client

    async with get_client() as client:
        return await client.read_deployment_by_name(name)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_nightly_is_deployed_with_its_hour_and_one_run_at_a_time(deployed):
    nightly = asyncio.run(read_deployment("evaluate-nightly/nightly"))
    (schedule,) = nightly.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone) == ("30 2 * * *", "Europe/Berlin")
    assert nightly.global_concurrency_limit.limit == 1
    assert nightly.concurrency_options.collision_strategy == "ENQUEUE"
    assert nightly.parameters == {"suites": "suites.yaml"}
    assert nightly.parameter_openapi_schema["properties"]["date"]["anyOf"][0] == {"format": "date", "type": "string"}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(
    "name",
    [
        "evaluate-outputs/outputs",
        "evaluate-nightly/nightly",
        "evaluate-checkpoint/checkpoint",
        "sweep-checkpoints/sweep",
    ],
)
def test_the_form_of_a_deployment_says_what_each_parameter_is(deployed, name):
    shown = asyncio.run(read_deployment(name)).parameter_openapi_schema["properties"]
    assert [parameter for parameter, words in shown.items() if not words.get("description")] == []


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_the_form_of_a_deployment_knows_what_each_parameter_may_be(deployed):
    outputs = asyncio.run(read_deployment("evaluate-outputs/outputs")).parameter_openapi_schema["properties"]
    assert outputs["trigger"]["enum"] == ["manual", "demo", "nightly", "checkpoint", "sweep"]
    assert (outputs["max_bad_rate"]["minimum"], outputs["max_bad_rate"]["maximum"]) == (0, 1)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_the_sweep_is_deployed_with_a_schedule_that_is_off(deployed):
    sweep = asyncio.run(read_deployment("sweep-checkpoints/sweep"))
    (schedule,) = sweep.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone, schedule.active) == ("*/15 * * * *", "UTC", False)
    assert sweep.parameters.keys() <= sweep.parameter_openapi_schema["properties"].keys()


def test_the_installed_prefect_finds_the_hours_of_a_schedule_in_a_time_zone():
    from prefect.server.schemas.schedules import CronSchedule

    nightly = CronSchedule(cron="30 2 * * *", timezone="Europe/Berlin")
    (first,) = asyncio.run(nightly.get_dates(1, start=datetime(2026, 11, 28, 12, tzinfo=UTC)))
    assert first == datetime(2026, 11, 29, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"step": 7}, {"step": 7, "checkpoint": None, "prompts": None, "endpoint": None}),
        ({"checkpoint": '7"', "prompts": "p"}, {"step": None, "checkpoint": '7"', "prompts": "p", "endpoint": None}),
    ],
)
def test_the_event_s_payload_becomes_parameters_and_missing_fields_are_none(payload, expected):
    from prefect.utilities.schema_tools.hydration import HydrationContext, hydrate

    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    (trigger,) = next(each["triggers"] for each in deployments if each["name"] == "checkpoint")
    context = HydrationContext(render_jinja=True, jinja_context={"event": {"payload": payload}})
    assert {name: hydrate(trigger["parameters"], context)[name] for name in expected} == expected


def test_no_heartbeat_is_expected_of_a_nightly_run_with_unmet_gates():
    silent = next(each["trigger"] for each in AUTOMATIONS if "silent" in each["name"])
    assert f"prefect.flow-run.{GATES_NOT_MET}" in silent["expect"]


@pytest.mark.nightly
def test_the_settings_of_a_process_disable_telemetry():
    code = "import os; from gradebook import flows; from prefect.settings import get_current_settings as settings; "
    code += "print(settings().server.analytics_enabled, os.environ['DO_NOT_TRACK'])"
    names = {"PREFECT_SERVER_ANALYTICS_ENABLED", "DO_NOT_TRACK"}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "False 1\n"


@pytest.mark.nightly
def test_data_quality_is_checked_without_telemetry():
    refuse_bad_expectations([shipped_suites("outputs")[0]], Path("outputs.json"))
    assert os.environ["GX_ANALYTICS_ENABLED"] == "False"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bool, "subprocess.CompletedProcess[str]"]:
    """Evaluate as a flow without a server and, if this machine allows it, without a network."""
    folder = tmp_path_factory.mktemp("alone")
    unshare = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    is_cut_off = bool(shutil.which("unshare")) and not subprocess.call([*unshare, "true"], stderr=subprocess.DEVNULL)
    words = ["evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--prefect"]
    command = [*(unshare if is_cut_off else ()), *GRADEBOOK, *words]
    finished = subprocess.run(
        command, cwd=folder, env=person(folder), capture_output=True, text=True, timeout=150, check=False
    )
    return folder, is_cut_off, finished


@pytest.mark.nightly
@pytest.mark.slow
def test_prefect_s_temporary_server_is_silent_records_the_run_and_ends_with_the_command(alone):
    folder, _, finished = alone
    assert finished.returncode == 0, finished.stderr
    assert "published as version" in finished.stdout
    found = [word for word in ("Traceback", "prefect.", "Prefect", " | ", "http://") if word in finished.stderr]
    assert not found, finished.stderr
    assert not processes_of(str(folder / "home"))
    states = recorded_states(folder / "home")
    assert set(states.values()) == {"Completed"}, states
    assert {"flow", "ingest", "length · shard 0", "publish", "report"} <= states.keys()


@pytest.mark.nightly
@pytest.mark.slow
def test_a_flow_with_checks_only_needs_no_network(alone):
    _, is_cut_off, finished = alone
    if not is_cut_off:
        pytest.skip("this machine lets nobody make a network namespace")
    assert finished.returncode == 0, finished.stderr


def recorded_states(home: Path) -> dict[str, str]:
    """States of the flow and its tasks in Prefect's database, by name."""
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        rows = database.execute(
            "select state_name, name from task_run union all select state_name, 'flow' from flow_run"
        )
        return {name: state for state, name in rows}
