"""The day that e2e_server.sh drives: deployments, an event, a night, a killed worker. It stops at what is wrong."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import write_outputs, write_rubric

ROOT = Path(__file__).parents[2]
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]
GRADEBOOK = [sys.executable, "-m", "gradebook.flows.cli"]
LAKE = "sqlite:lake/catalog.sqlite"
CASES, ASKED_BEFORE = 40, 15
NIGHT = "suites: [{id: night, outputs: night.jsonl, rubric: rubric.yaml, judge: judge.yaml}]\n"
OWN_AUTOMATIONS = ["gradebook: a crashed run goes on", "gradebook: a silent run has crashed"]
NEVER_S = 3_600.0
EMIT = """
import json, sys
from prefect.events import emit_event
emit_event("checkpoint.saved", resource={"prefect.resource.id": "training.tiny"}, payload=json.loads(sys.argv[1]))
"""
_begun = time.monotonic()


def main() -> None:
    """Go through the day."""
    # A shell that runs this in the background has it ignore SIGINT; a worker that inherits that never ends.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with LoopbackJudge(latency_s=0.1) as judge:
        _write_files(judge)
        _until("the server answers", _is_healthy, 120)
        _deploy()
        with _worker("first.log") as first:
            _a_checkpoint_by_its_event()
            _killed_while_judging(judge, first)
        with _worker("second.log") as second:
            _a_night(second)
            _goes_on(judge)
    _say("done")


# -------- steps
def _write_files(judge: LoopbackJudge) -> None:
    write_rubric(Path("rubric.yaml"))
    Path("judge.yaml").write_text(
        f"model: gpt-4o-mini\nbase_url: {judge.base_url}\nmax_in_flight: 4\n", encoding="utf-8"
    )
    for name, count in (("step-100", 3), ("step-200", CASES), ("night", 4)):
        write_outputs(Path(f"{name}.jsonl"), count, models=("tiny",))
    Path("suites.yaml").write_text(f"lake: {LAKE}\n{NIGHT}", encoding="utf-8")


def _deploy() -> None:
    """Deploy the prefect.yaml that ships, with this folder's rubric, judge and lake."""
    shipped = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    own = {"rubric": "rubric.yaml", "judge": "judge.yaml", "lake": LAKE, "budget_usd": 1}
    for deployment in shipped["deployments"]:
        given = deployment["parameters"]
        given |= {name: value for name, value in own.items() if name in given}
    Path("prefect.yaml").write_text(yaml.safe_dump(shipped), encoding="utf-8")
    _call([*PREFECT, "work-pool", "create", "gradebook", "--type", "process"])
    _call([*PREFECT, "deploy", "--all"])
    _call([*PREFECT, "deploy", "--all"])  # again: nothing is there twice
    names = sorted(each["name"] for each in _post("automations/filter", {}) if each["name"].startswith("gradebook: "))
    _hold(names == OWN_AUTOMATIONS, f"expected each automation once, found {names}")


def _a_checkpoint_by_its_event() -> None:
    payload = {"model": "tiny", "step": 100, "outputs": "step-100.jsonl"}
    _call([sys.executable, "-c", EMIT, json.dumps(payload)])
    _until("the event's run ends", lambda: _states("evaluate-checkpoint") == ["COMPLETED"], 300)
    events = _until("the gate's event is back", lambda: _events("gradebook.gate."), 30)
    (decided,) = _rows("select model, step, status, run_id from checkpoints")
    _hold(decided["status"] == "approved" and decided["step"] == 100, f"found {decided}")
    (event,) = events
    _hold(
        event["event"] == "gradebook.gate.passed" and event["payload"]["run_id"] == decided["run_id"], f"found {event}"
    )


def _killed_while_judging(judge: LoopbackJudge, worker: "subprocess.Popen[bytes]") -> None:
    """Kill the worker and its flow in the middle of a run."""
    judge.latency_s = 0.3
    asked_before = judge.answered_count
    words = ["suite", "notify", "step-200.jsonl", "--model", "tiny", "--step", "200"]
    _call([*GRADEBOOK, *words])
    _call([*GRADEBOOK, *words])  # a second time: no second run
    _until("the judge is asked", lambda: judge.answered_count >= asked_before + ASKED_BEFORE, 300)
    judge.latency_s = NEVER_S  # so that whatever is out now is not answered, and not paid
    time.sleep(1)
    _kill_all_of(worker.pid)
    judge.latency_s = 0.05
    answered = judge.answered_count - asked_before
    _hold(ASKED_BEFORE <= answered < CASES, f"expected it in the middle of {CASES}, found {answered}")
    _say(f"killed after {answered} of {CASES} replies")


def _a_night(worker: "subprocess.Popen[bytes]") -> None:
    """Kill the process of a night, as one whose memory is used up, while the killed checkpoint falls silent."""
    coming = {"deployments": {"name": {"any_": ["nightly"]}}, "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    _until("the schedule has its nights", lambda: _post("flow_runs/filter", coming), 120)
    _call([*PREFECT, "deployment", "run", "evaluate-nightly/nightly"])  # and not at half past two
    _until("the night begins", lambda: "RUNNING" in _states("evaluate-nightly"), 120)
    for process in psutil.Process(worker.pid).children(recursive=True):
        process.kill()
    _until("the night ends", lambda: "COMPLETED" in _states("evaluate-nightly"), 300)
    (night,) = _rows("select status, output_count from runs where \"trigger\" = 'nightly'")
    _hold(night == {"status": "published", "output_count": 4}, f"found {night}")


def _goes_on(judge: LoopbackJudge) -> None:
    _until("the killed run ends", lambda: _states("evaluate-checkpoint") == ["COMPLETED"] * 2, 400)
    # the three files begin with the same outputs, and the night came in between: each of all texts is asked for once
    _hold(judge.answered_count == CASES, f"expected {CASES} requests answered, found {judge.answered_count}")
    (ledger,) = _rows("select count(*) as n, count(distinct request_key) as keys from judgments")
    _hold(ledger["n"] == ledger["keys"] == judge.answered_count, f"found {ledger}, answered {judge.answered_count}")
    statuses = _rows("select status, count(*) as n from runs group by status")
    _hold(statuses == [{"status": "published", "n": 3}], f"found {statuses}")


# -------- the server
@contextmanager
def _worker(log: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [*PREFECT, "worker", "start", "--pool", "gradebook"]
    with Path(log).open("wb") as file:
        worker = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    try:
        yield worker
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGTERM)
        worker.wait(30)


def _kill_all_of(pid: int) -> None:
    """Kill a worker and its flow runs, as a machine that goes down does: these are in sessions of their own."""
    worker = psutil.Process(pid)
    for process in (worker, *worker.children(recursive=True)):
        process.kill()


def _is_healthy() -> bool:
    try:
        return bool(_get("health"))
    except OSError:
        return False


def _states(flow: str) -> list[str]:
    asked = {"flows": {"name": {"any_": [flow]}}}
    return [run["state_type"] for run in _post("flow_runs/filter", asked)]


def _events(prefix: str) -> list[dict[str, Any]]:
    found = _post("events/filter", {"filter": {"event": {"prefix": [prefix]}}})
    events: list[dict[str, Any]] = found["events"]
    return events


def _get(path: str) -> Any:
    with urllib.request.urlopen(f"{os.environ['PREFECT_API_URL']}/{path}", timeout=20) as answer:
        return json.loads(answer.read())


def _post(path: str, body: dict[str, Any]) -> Any:
    url, headers = f"{os.environ['PREFECT_API_URL']}/{path}", {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


# -------- holding and telling
def _rows(query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(_call([*GRADEBOOK, "sql", query, "--format", "json"]))
    return rows


def _call(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    _hold(ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def _until(what: str, look: Callable[[], Any], timeout_s: float) -> Any:
    end = time.monotonic() + timeout_s
    while not (found := look()):
        _hold(time.monotonic() < end, f"{what}: not within {timeout_s:g} s")
        time.sleep(0.3)
    _say(what)
    return found


def _hold(is_so: bool, found: str) -> None:
    if not is_so:
        raise SystemExit(f"e2e: {found}")


def _say(what: str) -> None:
    sys.stdout.write(f"{time.monotonic() - _begun:6.1f} s  {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
