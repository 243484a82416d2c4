"""Throughput of each runner on five deterministic checks of 200,000 outputs: threads, and Dask with two workers.

    python bench/runners.py [--n 200000] [--rounds 3] [--runners threads dask] [--workers 2]

Each run is a separate `gradebook evaluate` into a new lake, with one Prefect server for all runs. Runners alternate, so
other load on the machine affects them equally. For Dask, a scheduler and workers are started in advance, as on an
existing cluster; `dask:local` times a cluster started by the run. All runs have to publish the same scores. Prints a
line per runner with medians: seconds from the start of the run to its publication, the part of them for checks and data
quality, and seconds of the whole command. The last line is the figure: outputs per second of each runner, from start to
publication.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parent))

from evaluate import RUBRIC, write_outputs

from tests.support.dask_cluster import DaskCluster

ROOT = Path(__file__).parents[1]
RUNNERS = ("threads", "dask", "dask:local")
OTHER_STAGES = {"ingest", "plan", "aggregate", "publish"}
SCORES = "select bit_xor(hash(scores)) from (select * exclude (run_id) from output_scores) as scores"


@dataclass(frozen=True, slots=True)
class Timed:
    """Timing of one run, in seconds. scores: their digest."""

    published_s: float
    scored_s: float
    command_s: float
    scores: str


@contextmanager
def prefect_server(folder: Path) -> Iterator[Mapping[str, str]]:
    """Start a Prefect server; yields the environment variables that point to it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/api"
    home = {"PREFECT_HOME": str(folder / "prefect"), "PYTHONPATH": str(ROOT)}
    from gradebook import flows  # sets variables that the server reads  # noqa: F401

    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=os.environ | home, **quiet) as server:
        try:
            _wait_until_healthy(address)
            yield home | {"PREFECT_API_URL": address}
        finally:
            server.terminate()


def _wait_until_healthy(address: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    sys.exit(f"found no Prefect server at {address}")


def evaluate(folder: Path, words: str, environment: Mapping[str, str]) -> Timed:
    """Evaluate the outputs once, into a new lake. words: value of --runner."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        lake = ["--lake", f"sqlite:{name}/catalog.sqlite"]
        begin = time.perf_counter()
        answer = _gradebook(
            folder,
            environment,
            "evaluate",
            "outputs.jsonl",
            "--rubric",
            "rubric.yaml",
            "--json",
            "--runner",
            words,
            *lake,
        )
        command_s = time.perf_counter() - begin
        run = json.loads(answer)
        scores = _gradebook(folder, environment, "sql", SCORES, "--format", "csv", *lake).split()[-1]
    published = datetime.fromisoformat(run["finished_at"]) - datetime.fromisoformat(run["created_at"])
    # Checks of a run are concurrent: the sum of their times is not the time of all of them.
    other_s = sum(row["wall_s"] for row in run["costs"] if row["stage"] in OTHER_STAGES)
    return Timed(published.total_seconds(), published.total_seconds() - other_s, command_s, scores)


def _gradebook(folder: Path, environment: Mapping[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "gradebook.flows.cli", *words]
    ended = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if ended.returncode not in {0, 1}:
        sys.exit(ended.stderr)
    return ended.stdout


@contextmanager
def dask_words(folder: Path, worker_count: int) -> Iterator[str]:
    """Start a scheduler with its workers and wait for all; yields the value of --runner."""
    from distributed import Client

    (folder / "dask").mkdir()
    with DaskCluster(folder / "dask") as cluster:
        for _ in range(worker_count):
            cluster.add_worker()
        with Client(cluster.runner.removeprefix("dask:"), timeout=60) as client:
            client.wait_for_workers(worker_count, timeout=120)
        yield cluster.runner


def measure(folder: Path, runners: list[str], rounds: int, worker_count: int) -> dict[str, list[Timed]]:
    """Time every runner, alternating."""
    with ExitStack() as opened:
        environment = opened.enter_context(prefect_server(folder))
        words = {runner: runner.removesuffix(":local") for runner in runners}
        if "dask" in runners:
            words["dask"] = opened.enter_context(dask_words(folder, worker_count))
        timed: dict[str, list[Timed]] = {runner: [] for runner in runners}
        for number in range(rounds):
            for runner in runners[number % len(runners) :] + runners[: number % len(runners)]:
                timed[runner].append(evaluate(folder, words[runner], environment))
    return timed


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=200_000, help="outputs")
    parser.add_argument("--rounds", type=int, default=3, help="runs by each runner")
    parser.add_argument("--runners", nargs="+", choices=RUNNERS, default=["threads", "dask"])
    parser.add_argument("--workers", type=int, default=2, help="workers of the Dask cluster, one process each")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_outputs(folder / "outputs.jsonl", given.n)
        (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
        timed = measure(folder, given.runners, given.rounds, given.workers)
    if len({run.scores for runs in timed.values() for run in runs}) != 1:
        sys.exit(f"found different scores by different runners, expected the same: {timed}")
    workers = f", {given.workers} workers of dask" if "dask" in given.runners else ""
    print(f"{given.n:,} outputs x 5 checks, medians of {given.rounds}, {os.cpu_count()} cores{workers}")
    rates = {}
    for runner, runs in timed.items():
        published_s, scored_s, command_s = (
            statistics.median(getattr(run, name) for run in runs) for name in ("published_s", "scored_s", "command_s")
        )
        rates[runner] = given.n / published_s
        print(f"{runner:10} published {published_s:6.1f} s, checks {scored_s:6.1f} s, whole command {command_s:6.1f} s")
    print("outputs/s: " + ", ".join(f"{runner} {rate:,.0f}" for runner, rate in rates.items()))


if __name__ == "__main__":
    main()
