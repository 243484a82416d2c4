"""Start-up of a small evaluation: wall time, CPU and memory of all its processes, beside bare parts, in one run.

    python bench/start.py [--gradebook GRADEBOOK] [--times 3] [--judgments 0]

Three outputs and one check in a new home: a first evaluation and later ones, with what stage_costs holds of the last
one, the same as a flow (--prefect), a review, and commands that refuse or only answer. Beside it the parts: a bare
Prefect flow of one task, in a new home and again. --judgments N: also a run of N judgments at 200 ms, 64 in flight,
beside a plain openai loop. --gradebook: the console command of another version.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
JUDGE = ROOT / "tests" / "support" / "loopback_judge.py"
RUBRIC = """id: short
version: 1.0.0
description: Short answers.
criteria:
  - id: short
    description: The answer is short.
    weight: 1
    method: {type: check, check: length_words, settings: {max: 3}}
"""
JUDGED = """id: judged
version: 1.0.0
description: Clear answers.
criteria:
  - id: clear
    description: The answer is clear.
    weight: 1
    method: {type: judge}
    levels:
      - {id: "no", score: 0, description: It is unclear.}
      - {id: "yes", score: 1, description: It is clear.}
"""
QUIET = {
    "OPENAI_API_KEY": "none",
    "GX_ANALYTICS_ENABLED": "False",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}
FLOW = """
from prefect import flow, task

@task
def add(x: int) -> int:
    return x + 1

@flow
def one() -> int:
    return add(1)

one()
"""
LOOP = """
import asyncio, json, sys
from openai import AsyncOpenAI

async def main(base_url: str, count: int) -> None:
    numbers = iter(range(count))
    async with AsyncOpenAI(api_key="none", base_url=base_url) as client:
        async def work() -> None:
            for number in numbers:
                message = {"role": "user", "content": f"Is answer {number} clear?"}
                await client.chat.completions.create(model="gpt-4o-mini", messages=[message])
        await asyncio.gather(*(work() for _ in range(64)))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


MEMORY_EVERY_S = 0.1  # the kernel adds up a process's pages each time


class Watched:
    """CPU seconds and peak memory of a process and all its descendants, sampled until `stop`.

    Memory: a page that n processes share counts 1/n in each (PSS), so that it counts once in the sum.
    """

    def __init__(self, process_id: int) -> None:
        self._process = psutil.Process(process_id)
        self._is_over = threading.Event()
        self.peak_mb = 0.0
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the sampling."""
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._is_over.wait(MEMORY_EVERY_S):
            memory = 0.0
            with suppress(psutil.Error):
                for process in [self._process, *self._process.children(recursive=True)]:
                    with suppress(psutil.Error):
                        memory += process.memory_full_info().pss / 1e6
            self.peak_mb = max(self.peak_mb, memory)


def measure(name: str, command: Sequence[str], folder: Path, environment: dict[str, str], code: int = 0) -> None:
    """Run a command and print its wall time, CPU and peak memory; none of its processes may outlive it."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=folder, env=environment, **pipes)
    watched = Watched(process.pid)
    _, err = process.communicate()
    wall_s, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    watched.stop()
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name:34}{wall_s:7.2f} s wall{cpu_s:7.2f} s CPU{watched.peak_mb:7.0f} MB", flush=True)
    if process.returncode != code:
        raise SystemExit(f"{' '.join(command)}: exit {process.returncode}\n{err}")


def new_folder(parent: Path, name: str) -> tuple[Path, dict[str, str]]:
    """A folder with three outputs and a rubric, and the environment of a new user."""
    folder = parent / name
    folder.mkdir()
    rows = [{"case_id": f"c{n}", "model": "m", "prompt": "Greet", "output": "good day to you " * n} for n in range(3)]
    (folder / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "PYTHON"))}
    environment = kept | {"HOME": str(folder), "PREFECT_HOME": str(folder / "home")}
    return folder, environment | QUIET


def measure_start(gradebook: str, times: int, parent: Path) -> None:
    """A small evaluation, first, later and as a flow, and commands that only answer."""
    evaluate = [
        gradebook,
        "evaluate",
        "outputs.jsonl",
        "--rubric",
        "rubric.yaml",
        "--lake",
        "sqlite:lake/catalog.sqlite",
    ]
    for number in range(times):
        folder, environment = new_folder(parent, f"start-{number}")
        measure("first evaluation", evaluate, folder, environment)
        for _ in range(2):
            measure("later evaluation", evaluate, folder, environment)
        print_stages(gradebook, folder, environment)
        measure("the same as a flow, new home", [*evaluate, "--prefect"], folder, environment)
        measure("the same as a flow, again", [*evaluate, "--prefect"], folder, environment)
        measure("review", [gradebook, "review", "rubric.yaml", "--rubrics", "rubric.yaml"], folder, environment)
        tried = [gradebook, "checks", "try", "length_words", "--set", "max=3", "--text", "good day"]
        measure("checks try", tried, folder, environment)
        measure("--help", [gradebook, "--help"], folder, environment)
        measure("wrong rubric", [*evaluate[:-1], "none.yaml"], folder, environment, 2)
        measure("wrong column", [*evaluate, "--map", "output=answer"], folder, environment, 2)
        shutil.rmtree(folder)


def print_stages(gradebook: str, folder: Path, environment: dict[str, str]) -> None:
    """Print what stage_costs holds of the last run: beside the command's CPU above, the rest is in no stage."""
    query = (
        "select stage, sum(wall_s) as wall_s, sum(cpu_s) as cpu_s from stage_costs "
        "where run_id = (select max(run_id) from runs) group by stage order by cpu_s desc"
    )
    asked = [gradebook, "sql", query, "--lake", "sqlite:lake/catalog.sqlite", "--format", "json"]
    found = subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    stages = json.loads(found.stdout)
    parts = ", ".join(f"{each['stage']} {each['cpu_s']:.2f}" for each in stages)
    wall_s, cpu_s = (sum(each[name] for each in stages) for name in ("wall_s", "cpu_s"))
    print(f"{'  of it in stage_costs':34}{wall_s:7.2f} s wall{cpu_s:7.2f} s CPU{'':10}  ({parts})", flush=True)


def measure_parts(python: str, times: int, parent: Path) -> None:
    """Measure a bare Prefect flow of one task."""
    for number in range(times):
        folder, environment = new_folder(parent, f"parts-{number}")
        measure("bare Prefect flow, new home", [python, "-c", FLOW], folder, environment)
        measure("bare Prefect flow, again", [python, "-c", FLOW], folder, environment)


def measure_judged(gradebook: str, python: str, count: int, parent: Path) -> None:
    """A whole run of judgments, beside a loop that only asks."""
    folder, environment = new_folder(parent, "judged")
    for name in ("first", "later"):
        rows = ({"case_id": f"c{n}", "model": "m", "prompt": "Greet", "output": f"{name} {n}"} for n in range(count))
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "rubric.yaml").write_text(JUDGED, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(JUDGE), "--latency-s", "0.2"], stdout=subprocess.PIPE, text=True
    ) as judge:
        try:
            base_url = f"http://127.0.0.1:{judge.stdout.readline().strip() if judge.stdout else ''}/v1"
            settings = f"model: gpt-4o-mini\nbase_url: {base_url}\nmax_in_flight: 64\n"
            (folder / "judge.yaml").write_text(settings, encoding="utf-8")
            judged = ["--rubric", "rubric.yaml", "--judge", "judge.yaml"]
            print(f"{count} judgments at 200 ms, 64 in flight: {count * 0.2 / 64:.1f} s at best")
            measure("plain openai loop", [python, "-c", LOOP, base_url, str(count)], folder, environment)
            for name in ("first", "later"):
                evaluate = [gradebook, "evaluate", f"{name}.jsonl", *judged]
                measure(f"whole evaluation, {name}", evaluate, folder, environment | {"OPENAI_BASE_URL": base_url})
        finally:
            judge.terminate()


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradebook", default=str(Path(sys.executable).with_name("gradebook")))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--judgments", type=int, default=0)
    given = parser.parse_args()
    python = str(Path(given.gradebook).with_name("python"))
    with tempfile.TemporaryDirectory() as parent:
        measure_parts(python, given.times, Path(parent))
        measure_start(given.gradebook, given.times, Path(parent))
        if given.judgments:
            measure_judged(given.gradebook, python, given.judgments, Path(parent))


if __name__ == "__main__":
    main()
