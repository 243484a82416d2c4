"""The Python API beside plain functions: import, texts, judged texts, an evaluation, a server.

    python bench/python_api.py [--fault-count 5000] [--autorubric PYTHON] [--verifiers PYTHON]

Times of checks are medians of CPU time, in turn with the plain functions, so that other work on the machine counts for
neither. The plain functions are the rubric's own checks, called once for the whole batch, without rows, scores or
reasons. Judged texts show wall and CPU time: the ideal is the judge's latency times the rounds. All answers of a round
come at once here, as the latency is constant, so that the CPU time of a round adds to it: less would where it varies.
"""

import argparse
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pyarrow as pa

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import gradebook  # noqa: E402
from gradebook.rubrics.check_kit.check import read_settings  # noqa: E402
from gradebook.rubrics.checks.registry import find_check  # noqa: E402
from tests.support.loopback_judge import LoopbackJudge  # noqa: E402

EXAMPLE = ROOT / "examples" / "support_replies"
CHECKS: dict[str, dict[str, Any]] = {
    "length_words": {"min": 5, "max": 80},
    "contains": {"any": ["hello"]},
    "pii": {},
    "has_json_object": {},
    "is_complete": {},
    "repetition": {},
}
LATENCY_S = 0.2  # of the judge
IN_FLIGHT = 64
TEXT_COUNT = 1_920  # 30 rounds
LEVELS = [{"id": "fair", "score": 0.5}, {"id": "good", "score": 1}]
JUDGED = {"id": "tone", "description": "Is it kind?", "method": {"type": "judge"}, "levels": LEVELS}
KIND = {"id": "kind", "version": "1.0.0", "criteria": [JUDGED]}
# Judged texts of other libraries, in the interpreter that has them: address of the judge, count, requests in flight.
AUTORUBRIC = """
import asyncio, json, sys, time
from autorubric import Criterion, LLMConfig, Rubric
from autorubric.graders import CriterionGrader

async def main(address, count, in_flight):
    judge = LLMConfig(model="openai/m", api_base=address, api_key="k", max_parallel_requests=in_flight)
    grader = CriterionGrader(judge_model_config=judge)
    rubric = Rubric([Criterion(weight=1.0, requirement="It is kind.")])
    await rubric.grade(to_grade="warm", grader=grader)
    begin, cpu = time.perf_counter(), time.process_time()
    grading = (rubric.grade(to_grade=f"answer {number}", grader=grader) for number in range(count))
    reports = await asyncio.gather(*grading)
    if any(each.score is None for each in reports):
        sys.exit(reports[0])
    print(json.dumps([time.perf_counter() - begin, time.process_time() - cpu]))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""
VERIFIERS = """
import asyncio, json, sys, tempfile, time
from pathlib import Path
from types import SimpleNamespace
import verifiers.v1 as vf

async def main(address, count, in_flight):
    path = Path(tempfile.mkdtemp()) / "rubric.json"
    path.write_text(json.dumps({"criteria": [{"name": "kind", "text": "It is kind.", "choices": ["no", "yes"]}]}))
    server = {"model": "m", "base_url": address, "api_key_var": "OPENAI_API_KEY"}
    judge = vf.RubricJudge(vf.RubricJudgeConfig(path=path, view="last_reply", **server))
    free = asyncio.Semaphore(in_flight)
    task = vf.TaskData(prompt="Say hello.")

    async def score(text):
        records = dict.fromkeys(("record_metric", "record_judge_call"), lambda *args, **named: None)
        async with free:
            return await judge.score(task, SimpleNamespace(last_reply=text, transcript=text, **records))

    await score("warm")
    begin, cpu = time.perf_counter(), time.process_time()
    scores = await asyncio.gather(*(score(f"answer {number}") for number in range(count)))
    if set(scores) != {1.0}:
        sys.exit(scores[0])
    print(json.dumps([time.perf_counter() - begin, time.process_time() - cpu]))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""
PEERS = {
    "AutoRubric": (AUTORUBRIC, '{"criterion_status": "MET", "explanation": "It is kind."}'),
    "verifiers": (VERIFIERS, '{"verdicts": [{"name": "kind", "reason": "It is kind.", "verdict": "yes"}]}'),
}
TEXT = "hello my dear friend, " * 10 + 'here is {"a": 1} and so it ends.'


def rubric(*more: dict[str, Any]) -> dict[str, Any]:
    checks = [
        {"id": name, "description": "?", "method": {"type": "check", "check": name, "settings": settings}}
        for name, settings in CHECKS.items()
    ]
    return {"id": "six", "version": "1.0.0", "criteria": [*checks, *more]}


def cpu_ms(*calls: Callable[[], object], count: int = 60) -> list[float]:
    """Median CPU time of each of some warm calls, made in turn, in milliseconds."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(count + 3):
        for call, spent in zip(calls, times, strict=True):
            begin = time.process_time()
            call()
            spent.append(time.process_time() - begin)
    return [statistics.median(spent[3:]) * 1e3 for spent in times]


def import_cost() -> tuple[float, float]:
    """Seconds of `import gradebook` in a new process, and megabytes of that process."""
    code = (
        "import time; begin = time.perf_counter(); import gradebook; took = time.perf_counter() - begin;"
        "print(took, open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    )
    shown = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(5)
    ]
    return statistics.median(float(each[0]) for each in shown), max(float(each[1]) for each in shown) / 1000


def batch_cost() -> list[float]:
    """CPU milliseconds: `score` of one text, a scorer over 64 texts, the plain functions over 64 and over one."""
    scorer = gradebook.Scorer(rubric())
    texts = [f"{place} {TEXT}" for place in range(64)]
    found = [(find_check(name), read_settings(find_check(name), settings)) for name, settings in CHECKS.items()]

    def plain(outputs: list[str]) -> None:
        shard = pa.table({"output": pa.array(outputs)})
        for check, settings in found:
            check.function(shard, settings)

    return cpu_ms(
        lambda: gradebook.score(TEXT, rubric()),
        lambda: scorer(completions=texts),
        lambda: plain(texts),
        lambda: plain([TEXT]),
    )


def evaluation_cost(folder: str) -> list[tuple[float, float]]:
    """Wall and CPU seconds of evaluations of the 84 shipped outputs, the first in a cold process."""
    costs = []
    for place in range(4):
        begin, cpu = time.perf_counter(), time.process_time()
        gradebook.evaluate(
            EXAMPLE / "outputs.jsonl",
            EXAMPLE / "rubric.yaml",
            f"replay:{EXAMPLE / 'replies.jsonl'}",
            f"sqlite:{folder}/lake/catalog.sqlite",
            run_id=f"run-{place}",
            prefect=False,
        )
        costs.append((time.perf_counter() - begin, time.process_time() - cpu))
    return costs


def fault_cost(count: int) -> tuple[int, int, int]:
    """Rewards that are None, that are 0, and that are no level's, of a judge of which every third request fails.

    No level scores 0, so that every 0 would come from a fault.
    """
    with LoopbackJudge() as judge, tempfile.TemporaryDirectory() as folder:
        judge.is_keeping_bodies = False
        judge.fault_rates = {"500": 0.2, "garbage": 0.1, "drop": 0.05}
        path = Path(folder) / "judge.yaml"
        path.write_text(f"model: m\nbase_url: {judge.base_url}\nmax_attempts: 1\nmax_in_flight: 64\n", encoding="utf-8")
        with gradebook.Scorer(KIND, str(path)) as scorer:
            texts = [f"answer {place}" for place in range(count)]
            rewards = [each for start in range(0, count, 64) for each in scorer(completions=texts[start : start + 64])]
    none = sum(each is None for each in rewards)
    return none, sum(each == 0 for each in rewards), sum(each not in (None, 0, 0.5, 1) for each in rewards)


def peer_cost(name: str, interpreter: str, count: int = TEXT_COUNT) -> tuple[float, float]:
    """Wall and CPU seconds of as many texts judged by another library."""
    program, reply = PEERS[name]
    with judging("--reply", reply) as (address, _):
        command = [interpreter, "-c", program, address, str(count), str(IN_FLIGHT)]
        shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    wall, cpu = json.loads(shown.splitlines()[-1])
    return wall, cpu


def judged_cost(count: int = TEXT_COUNT) -> Iterator[tuple[str, float, float]]:
    """Wall and CPU seconds of judged texts with 64 requests in flight: of a Scorer, and of a plain client, in turn."""
    import asyncio

    from openai import AsyncOpenAI

    messages = [{"role": "user", "content": "Is it kind? " * 50}]

    async def ask_all(address: str, texts: list[str]) -> None:
        free = asyncio.Semaphore(IN_FLIGHT)
        async with AsyncOpenAI(base_url=address, api_key="k") as client:

            async def ask(text: str) -> None:
                async with free:
                    asked = [*messages, {"role": "user", "content": text}]
                    await client.chat.completions.create(model="m", messages=asked)

            await asyncio.gather(*map(ask, texts))

    with judging() as (address, path), gradebook.Scorer(KIND, str(path)) as scorer:
        scorer(completions=[f"warm {place}" for place in range(3 * IN_FLIGHT)])  # a new judge is asked 20 at a time
        for turn in range(3):
            texts = [f"answer {turn} {place}" for place in range(count)]
            for name, call in (
                ("scorer", lambda texts=texts: scorer(completions=texts)),
                ("plain client", lambda texts=texts: asyncio.run(ask_all(address, texts))),
            ):
                begin, cpu = time.perf_counter(), time.process_time()
                call()
                yield name, time.perf_counter() - begin, time.process_time() - cpu


def served_cost(caller_count: int = 20, each_count: int = 40) -> tuple[float, float, float]:
    """Median milliseconds of a request to `gradebook train serve` and of one to its judge, and CPU of the server's.

    Every caller sends one text at a time, and the next one once the answer is there. With the ledger of a lake. Half
    of the callers' requests go to the judge itself, in turn with the others, so that both see the same machine.
    """
    times: dict[str, list[float]] = {"/score": [], "/v1/chat/completions": []}

    def call(place: int, ports: dict[str, int]) -> None:
        connections = {path: http.client.HTTPConnection("127.0.0.1", port) for path, port in ports.items()}
        for number in range(each_count + 1):
            text = f"caller {place}, answer {number}"
            message = {"role": "user", "content": text}
            bodies = {"/score": {"outputs": [text]}, "/v1/chat/completions": {"model": "m", "messages": [message]}}
            for path, connection in connections.items():
                begin = time.perf_counter()
                connection.request("POST", path, json.dumps(bodies[path]), {"Content-Type": "application/json"})
                found = json.loads(connection.getresponse().read())
                if path == "/score" and found["scores"][0]["reward"] is None:
                    raise SystemExit(found)
                if number:
                    times[path].append(time.perf_counter() - begin)

    with tempfile.TemporaryDirectory() as folder, judging() as (judge_address, path):
        rubric_file = Path(folder) / "kind.json"
        rubric_file.write_text(json.dumps(KIND), encoding="utf-8")
        words = ["train", "serve", rubric_file, "--judge", path, "--port", "0"]
        with started(sys.executable, "-m", "gradebook", *map(str, words), folder=folder) as (server, address):
            ports = {name: urlsplit(url).port for name, url in zip(times, (address, judge_address), strict=True)}
            begun = psutil.Process(server.pid).cpu_times()
            callers = [threading.Thread(target=call, args=(place, ports)) for place in range(caller_count)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()
            ended = psutil.Process(server.pid).cpu_times()
    cpu_s = ended.user + ended.system - begun.user - begun.system
    served, judged = (statistics.median(values) * 1e3 for values in times.values())
    return served, judged, cpu_s / len(times["/score"]) * 1e3


@contextmanager
def started(*command: str, folder: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, with its first line."""
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=folder, **quiet) as server:
        try:
            yield server, server.stdout.readline().strip()
        finally:
            server.terminate()


@contextmanager
def judging(*more: str) -> Iterator[tuple[str, Path]]:
    """A judge in a process of its own: its address, and its file."""
    words = [str(ROOT / "tests" / "support" / "loopback_judge.py"), "--latency-s", str(LATENCY_S), *more]
    with tempfile.TemporaryDirectory() as folder, started(sys.executable, *words, folder=folder) as (_, port):
        path, address = Path(folder) / "judge.yaml", f"http://127.0.0.1:{port}/v1"
        path.write_text(f"model: m\nbase_url: {address}\nmax_in_flight: 64\n", encoding="utf-8")
        yield address, path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault-count", type=int, default=5_000)
    for name in PEERS:
        parser.add_argument(f"--{name.lower()}", metavar="PYTHON", help=f"interpreter that has {name}, to compare with")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "k")
    import_s, import_mb = import_cost()
    print(f"import gradebook: {import_s * 1e3:.0f} ms, {import_mb:.0f} MB")
    one, batch, plain, single = batch_cost()
    print(f"score, one text, six checks, warm: {one:.2f} ms CPU; the bare checks {single:.2f} ms")
    print(f"64 completions x 6 checks: {batch:.1f} ms CPU; the bare checks {plain:.1f} ms, ratio {batch / plain:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        first, *later = evaluation_cost(folder)
    wall, cpu = (statistics.median(values) for values in zip(*later, strict=True))
    print(f"evaluate, 84 rows: first {first[0]:.2f} s; warm {wall:.2f} s wall, {cpu:.2f} s CPU")
    interpreters = {name: getattr(arguments, name.lower()) for name in PEERS}
    peers = ((name, *peer_cost(name, interpreter)) for name, interpreter in interpreters.items() if interpreter)
    ideal = TEXT_COUNT / IN_FLIGHT * LATENCY_S
    for name, wall, cpu in chain(judged_cost(), peers):
        print(
            f"{TEXT_COUNT:,} judged texts at {IN_FLIGHT} in flight, {name}: {wall:.2f} s, {wall / ideal:.2f} x ideal, "
            f"{cpu / TEXT_COUNT * 1e3:.2f} ms CPU each"
        )
    served, judged, cpu = served_cost()
    print(f"serve-rewards, 20 callers: median {served:.1f} ms, the judge's {judged:.1f} ms; {cpu:.1f} ms CPU a request")
    none, zero, wrong = fault_cost(arguments.fault_count)
    print(f"{arguments.fault_count:,} rewards of a failing judge: {none:,} None, {zero:,} zero, {wrong:,} no level's")
    print(f"memory at the end: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")


if __name__ == "__main__":
    main()
