"""The Python API beside plain functions: import, texts, judged texts, an evaluation, a server.

    python bench/python_api.py [--fault-count 5000]

Times are wall-clock medians on this machine; the CPU seconds of an evaluation are shown beside its wall time. The plain
functions are the rubric's own checks, called once for the whole batch, without rows, scores or reasons.
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
from pathlib import Path
from typing import Any

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
LEVELS = [{"id": "fair", "score": 0.5}, {"id": "good", "score": 1}]
JUDGED = {"id": "tone", "description": "Is it kind?", "method": {"type": "judge"}, "levels": LEVELS}
KIND = {"id": "kind", "version": "1.0.0", "criteria": [JUDGED]}
TEXT = "hello my dear friend, " * 10 + 'here is {"a": 1} and so it ends.'


def rubric(*more: dict[str, Any]) -> dict[str, Any]:
    checks = [
        {"id": name, "description": "?", "method": {"type": "check", "check": name, "settings": settings}}
        for name, settings in CHECKS.items()
    ]
    return {"id": "six", "version": "1.0.0", "criteria": [*checks, *more]}


def median_ms(call: Callable[[], object], count: int = 60) -> float:
    """Median of a warm call, in milliseconds."""
    call()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


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


def batch_cost() -> tuple[float, float, float, float]:
    """Milliseconds of one text, of 64 texts, of the plain check functions over 64, and of the plain ones one by one."""
    scorer = gradebook.Scorer(rubric())
    texts = [f"{place} {TEXT}" for place in range(64)]
    found = [(find_check(name), read_settings(find_check(name), settings)) for name, settings in CHECKS.items()]

    def plain(outputs: list[str]) -> None:
        shard = pa.table({"output": pa.array(outputs)})
        for check, settings in found:
            check.function(shard, settings)

    def one_by_one() -> None:
        for text in texts:
            plain([text])

    return (
        median_ms(lambda: gradebook.score(TEXT, rubric())),
        median_ms(lambda: scorer(completions=texts)),
        median_ms(lambda: plain(texts)),
        median_ms(one_by_one, 5),
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


def judged_cost() -> tuple[float, float]:
    """Seconds of 640 judged texts with 64 requests in flight: of a Scorer, and of a plain client of the same judge."""
    import asyncio

    from openai import AsyncOpenAI

    texts = [f"answer {place}" for place in range(640)]
    with judging() as (address, path), gradebook.Scorer(KIND, str(path)) as scorer:
        scorer(completions=["warm"])
        begin = time.perf_counter()
        scorer(completions=texts)
        ours_s = time.perf_counter() - begin
        messages = [{"role": "user", "content": "Is it kind? " * 50}]

        async def ask_all() -> None:
            free = asyncio.Semaphore(64)
            async with AsyncOpenAI(base_url=address, api_key="k") as client:

                async def ask(text: str) -> None:
                    async with free:
                        asked = [*messages, {"role": "user", "content": text}]
                        await client.chat.completions.create(model="m", messages=asked)

                await ask("warm")
                begin = time.perf_counter()
                await asyncio.gather(*map(ask, texts))
                took.append(time.perf_counter() - begin)

        took: list[float] = []
        asyncio.run(ask_all())
    return ours_s, took[0]


def served_cost(caller_count: int = 20, each_count: int = 40) -> tuple[float, float]:
    """Milliseconds of a request to `gradebook serve-rewards`: the median beyond the judge's own time, and its CPU.

    Every caller sends one text at a time, and the next one once the answer is there. With the ledger of a lake.
    """
    times: list[float] = []

    def call(place: int, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for number in range(each_count + 1):
            body = json.dumps({"outputs": [f"caller {place}, answer {number}"]})
            begin = time.perf_counter()
            connection.request("POST", "/score", body, {"Content-Type": "application/json"})
            found = json.loads(connection.getresponse().read())
            if found["scores"][0]["reward"] is None:
                raise SystemExit(found)
            if number:
                times.append(time.perf_counter() - begin)

    with tempfile.TemporaryDirectory() as folder, judging() as (_, path):
        rubric_file = Path(folder) / "kind.json"
        rubric_file.write_text(json.dumps(KIND), encoding="utf-8")
        words = ["serve-rewards", rubric_file, "--judge", path, "--port", "0"]
        with started(sys.executable, "-m", "gradebook", *map(str, words), folder=folder) as (server, address):
            port = int(address.split(":")[2].split("/")[0])
            begun = psutil.Process(server.pid).cpu_times()
            callers = [threading.Thread(target=call, args=(place, port)) for place in range(caller_count)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()
            ended = psutil.Process(server.pid).cpu_times()
    cpu_s = ended.user + ended.system - begun.user - begun.system
    return (statistics.median(times) - LATENCY_S) * 1e3, cpu_s / len(times) * 1e3


@contextmanager
def started(*command: str, folder: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, with its first line."""
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=folder, **quiet) as server:
        yield server, server.stdout.readline().strip()
        server.terminate()


@contextmanager
def judging() -> Iterator[tuple[str, Path]]:
    """A judge in a process of its own: its address, and its file."""
    words = [str(ROOT / "tests" / "support" / "loopback_judge.py"), "--latency-s", str(LATENCY_S)]
    with tempfile.TemporaryDirectory() as folder, started(sys.executable, *words, folder=folder) as (_, port):
        path, address = Path(folder) / "judge.yaml", f"http://127.0.0.1:{port}/v1"
        path.write_text(f"model: m\nbase_url: {address}\nmax_in_flight: 64\n", encoding="utf-8")
        yield address, path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault-count", type=int, default=5_000)
    arguments = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "k")
    import_s, import_mb = import_cost()
    print(f"import gradebook: {import_s * 1e3:.0f} ms, {import_mb:.0f} MB")
    one, batch, plain, single = batch_cost()
    print(f"score, one text, six checks, warm: {one:.2f} ms")
    print(f"64 completions x 6 checks: {batch:.1f} ms; the bare checks {plain:.1f} ms, ratio {batch / plain:.2f}")
    print(f"the bare checks one text at a time: {single:.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        first, *later = evaluation_cost(folder)
    wall, cpu = (statistics.median(values) for values in zip(*later, strict=True))
    print(f"evaluate, 84 rows: first {first[0]:.2f} s; warm {wall:.2f} s wall, {cpu:.2f} s CPU")
    ours_s, plain_s = judged_cost()
    print(f"640 judged texts at 64 in flight: {ours_s:.2f} s, a plain client {plain_s:.2f} s; ideal 2 s")
    middle, cpu = served_cost()
    print(f"serve-rewards, 20 callers: median {middle:.1f} ms beyond the judge's 200 ms; {cpu:.1f} ms CPU a request")
    none, zero, wrong = fault_cost(arguments.fault_count)
    print(f"{arguments.fault_count:,} rewards of a failing judge: {none:,} None, {zero:,} zero, {wrong:,} no level's")
    print(f"memory at the end: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")


if __name__ == "__main__":
    main()
