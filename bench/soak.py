"""Soak test: months of small evaluations in minutes, by two long-lived processes into one SQLite lake.

    python bench/soak.py [--runs 300] [--outputs 20] [--never-compacted]

Each evaluation is a run with a judged and a checked criterion; the judge is on loopback. A tenth of the runs is a
night; at its end the lake is compacted while both processes continue. Fails if a run is lost, a verdict is missing or a
judgment is paid twice. Prints for each tenth the time per run, the resident memory of both processes and the time of a
query, the shortest of five. The last line compares the last tenth with the second; the first tenth is a warm-up.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil

from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import write_outputs, write_rubric

ROOT = Path(__file__).parents[1]
LAKE = "sqlite:lake/catalog.sqlite"
QUESTION = "select model, mean from run_scores where run_id = (select max_by(run_id, version) from runs)"
RECONCILED = """
select
    (select count(*) from runs where status = 'published') as published,
    (select count(*) from runs) as runs,
    (select count(*) from verdicts where status = 'scored') as verdicts,
    (select count(*) from judgments) as judgments,
    (select count(distinct request_key) from judgments) as keys
"""


def work(first: int, step: int, run_count: int) -> None:
    """Evaluate every `step`-th file, and print the time and the resident memory after each."""
    from gradebook.flows.evaluate_here import evaluate_here
    from gradebook.tasks.runs.request import EvaluationRequest

    for number in range(first, run_count, step):
        begun = time.perf_counter()
        request = EvaluationRequest(f"outputs-{number}.jsonl", "rubric.yaml", "judge.yaml", lake=LAKE)
        evaluate_here(request, is_shown=False)
        took_s = time.perf_counter() - begun
        resident_mb = psutil.Process().memory_info().rss / 2**20
        sys.stdout.write(json.dumps({"number": number, "took_s": took_s, "resident_mb": resident_mb}) + "\n")
        sys.stdout.flush()


def soak(folder: Path, run_count: int, output_count: int, *, is_compacted: bool) -> None:
    """Start both processes, query the lake while they work, and check its totals at the end."""
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.lake.user_queries import run_query

    os.chdir(folder)
    write_rubric(Path("rubric.yaml"))
    with LoopbackJudge(latency_s=0.02) as judge:
        judge.is_keeping_bodies = False
        Path("judge.yaml").write_text(f"model: gpt-4o-mini\nbase_url: {judge.base_url}\n", encoding="utf-8")
        for number in range(run_count):
            write_outputs(Path(f"outputs-{number}.jsonl"), output_count, models=(f"model {number}",))
        figures, ends = _watch(run_count, is_compacted)
        answered = judge.answered_count
    begun = time.perf_counter()
    (books,) = run_query(find_lake(LAKE), RECONCILED).to_pylist()
    print(f"totals: {books}, {answered:,} replies; exit codes: {ends} ({time.perf_counter() - begun:.2f} s)")
    judged = run_count * output_count
    expected = {"published": run_count, "runs": run_count, "verdicts": 2 * judged, "judgments": judged, "keys": judged}
    if books != expected or answered != judged or any(ends):
        raise SystemExit(f"expected {expected} and {judged:,} replies")
    ratios = [last / second for last, second in zip(figures[-1], figures[1], strict=True)]
    print("last tenth relative to the second: a run {:.2f} x, memory {:.2f} x, a query {:.2f} x".format(*ratios))


def _watch(run_count: int, is_compacted: bool) -> tuple[list[tuple[float, float, float]], list[int]]:
    """Seconds per run, resident MB of both processes and seconds per query for each tenth; and both exit codes."""
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.lake.compaction import compact_lake

    command = [sys.executable, str(ROOT / "bench" / "soak.py"), "--runs", str(run_count), "--work"]
    with Path("runs.jsonl").open("wb") as lines, Path("log.txt").open("wb") as log:
        both = [subprocess.Popen([*command, str(first)], stdout=lines, stderr=log) for first in (0, 1)]
        figures: list[tuple[float, float, float]] = []
        while len(figures) < 10:
            time.sleep(0.5)
            rows = [json.loads(line) for line in Path("runs.jsonl").read_bytes().splitlines() if line.endswith(b"}")]
            is_over = all(process.poll() is not None for process in both)
            if len(rows) >= run_count * (len(figures) + 1) // 10:
                tenth = rows[run_count * len(figures) // 10 : run_count * (len(figures) + 1) // 10]
                night = f"; {compact_lake(find_lake(LAKE)).sentence}" if is_compacted else ""
                asked_s = min(_timed_question() for _ in range(5))
                memory = [[row["resident_mb"] for row in rows if row["number"] % 2 == which][-1:] for which in (0, 1)]
                figures.append((sum(row["took_s"] for row in tenth) / len(tenth), sum(map(sum, memory)), asked_s))
                words = "{:.2f} s per run, {:.0f} MB resident, {:.3f} s per query".format(*figures[-1])
                print(words + night, flush=True)
            elif is_over:
                raise SystemExit(f"ended early:\n{Path('log.txt').read_text(encoding='utf-8')[-3_000:]}")
        return figures, [process.wait() for process in both]


def _timed_question() -> float:
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.lake.user_queries import run_query

    begun = time.perf_counter()
    run_query(find_lake(LAKE), QUESTION)
    return time.perf_counter() - begun


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Small evaluations, two at a time, into one SQLite lake.")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--outputs", type=int, default=20)
    parser.add_argument("--never-compacted", action="store_true", help="do not compact the lake")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        work(given.work, 2, given.runs)
    else:
        with tempfile.TemporaryDirectory(prefix="gradebook-soak-") as place:
            soak(Path(place), given.runs, given.outputs, is_compacted=not given.never_compacted)
