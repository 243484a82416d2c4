"""What claims cost: calls, tokens and time of a run at 20 claims an output, beside one call for all claims.

    python bench/claims.py [--outputs 300] [--latency-s 1]

The judge is on loopback, in a process of its own, and counts cached tokens as endpoints do: the beginning of a
prompt that was answered before, in steps of 128 tokens from 1,024 on; they are priced at a tenth.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradebook.rubrics.prompts.claims import render_extraction, render_verification, windows_of
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run
from gradebook.tasks.stages.submit import StagesInThreads
from tests.support.published_runs import NOW
from tests.support.samples import write_lines

JUDGE_PROGRAM = Path(__file__).parents[1] / "tests" / "support" / "claims_judge.py"
CLAIMS, CONTEXT_TOKENS, IN_FLIGHT, CACHED_PRICE = 20, 2_000, 64, 0.1
# Instruction, schema and example of RAGAS's two prompts (ragas/metrics/collections/faithfulness/util.py), in tokens,
# written as its BasePrompt does; too short for the cache, as another context follows.
RAGAS_FIXED_TOKENS = 423 + 776
RUBRIC = """
id: grounded
version: 1.0.0
criteria:
  - {id: groundedness, description: Does the context bear it out?, weight: 1, method: {type: claims}}
"""
JUDGING = """
select sum(wall_s) filter (criterion_id is not null), sum(cpu_s)
from stage_costs
where stage = 'score' and coalesce(criterion_id, 'groundedness') = 'groundedness'
"""
JUDGE = "model: m\nmax_in_flight: {in_flight}\n"


def row(number: int) -> dict[str, Any]:
    """Output of 20 sentences, half of them in its context of 2,000 tokens."""
    said = [f"Item {number} has the property {place} by the rule {place * 7 + number}." for place in range(CLAIMS)]
    filler = f"Clause {number} says nothing about items, and it goes on for a while to fill the page. "
    known = " ".join(said[::2])
    context = known + " " + filler * math.ceil((CONTEXT_TOKENS * 4 - len(known)) / len(filler))
    return {"case_id": f"c{number}", "model": "m", "output": " ".join(said), "context": [context]}


@contextmanager
def served_judge(latency_s: float) -> Iterator[str]:
    """Address of the judge."""
    command = [sys.executable, str(JUDGE_PROGRAM), str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield (server.stdout.readline() if server.stdout else "").strip()
        finally:
            server.terminate()


def read_stats(base_url: str) -> dict[str, int]:
    """Counts of the judge: requests, tokens and cached tokens, by name."""
    with urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/stats") as answer:
        stats: dict[str, int] = json.load(answer)
    return stats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=int, default=300)
    parser.add_argument("--latency-s", type=float, default=1.0)
    given = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = "sk-bench"
    rows = [row(number) for number in range(given.outputs)]
    with tempfile.TemporaryDirectory() as folder, served_judge(given.latency_s) as base_url:
        os.environ["OPENAI_BASE_URL"] = base_url
        home = Path(folder)
        outputs = write_lines(home / "outputs.jsonl", rows)
        (home / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
        (home / "judge.yaml").write_text(JUDGE.format(in_flight=IN_FLIGHT), encoding="utf-8")
        lake = f"sqlite:{home}/lake/catalog.sqlite"
        asked = EvaluationRequest(
            str(outputs), str(home / "rubric.yaml"), judge=str(home / "judge.yaml"), lake=lake, has_page=False
        )
        before = time.perf_counter(), _cpu_s()
        with opened_run(asked, NOW) as run:
            complete_run(run, StagesInThreads())
        wall_s, cpu_s = time.perf_counter() - before[0], _cpu_s() - before[1]
        with connect(find_lake(lake), read_only=True) as connection:
            ((judging_s, own_s),) = connection.execute(JUDGING).fetchall()
        stats = read_stats(base_url)
        ideal_s = _tell(stats, rows, given.latency_s)
        print(f"whole run: {wall_s:.1f} s wall, {cpu_s:.1f} s CPU")
        each_ms = 1000 * own_s / stats["requests"]
        ratio = f"{judging_s / ideal_s:.2f} x the ideal"
        print(f"judging: {judging_s:.1f} s wall, {ratio}, {own_s:.1f} s CPU of gradebook, {each_ms:.1f} ms a request")


def _tell(stats: dict[str, int], rows: list[dict[str, Any]], latency_s: float) -> float:
    """Print what was paid; returns the shortest time that the judging could take, in seconds."""
    paid = stats["prompt_tokens"] - stats["cached_tokens"] * (1 - CACHED_PRICE)
    uncached = float(stats["prompt_tokens"])
    packed = sum(_packed_tokens(each) for each in rows)
    calls = stats["requests"] / len(rows)
    # Two stages after one another, each as fast as the slots allow.
    per_stage = (len(rows), stats["requests"] - len(rows))
    ideal_s = sum(math.ceil(count / IN_FLIGHT) for count in per_stage) * latency_s
    print(f"{len(rows)} outputs, {CLAIMS} claims and {CONTEXT_TOKENS} tokens of context each")
    print(f"calls an output: {calls:.2f} (1 + ceil(claims / 4) = {1 + math.ceil(CLAIMS / 4)})")
    cached = stats["cached_tokens"]
    print(f"prompt tokens an output: {uncached / len(rows):,.0f}, of them cached {cached / len(rows):,.0f}")
    free = f"{(uncached - cached) / packed:.2f} x where cached is free"
    shares = f"{paid / uncached:.2f} x uncached, {paid / packed:.2f} x one packed call, {free}"
    print(f"paid as {paid / len(rows):,.0f} tokens: {shares}")
    repeated = (calls - 2) * CACHED_PRICE * sum(map(_shared_tokens, rows))
    floor = f"{1 + repeated / packed:.2f} x one packed call"
    print(f"least for four claims a call, by four reads of the context from the cache: {floor}")
    print(f"{paid / sum(map(_ragas_tokens, rows)):.2f} x the two calls of RAGAS")
    print(f"judging could take {ideal_s:.1f} s at {IN_FLIGHT} in flight")
    return ideal_s


def _packed_tokens(each: dict[str, Any]) -> float:
    """Prompt tokens of the extraction and of one call for all claims."""
    windows = windows_of(each["output"])
    claims = [sentence.text for window in windows for sentence in window.sentences]
    asked = [*map(render_extraction, windows), render_verification(each["context"], claims)]
    return sum(len("\n".join(part["content"] for part in messages)) / 4 for messages in asked)


def _shared_tokens(each: dict[str, Any]) -> float:
    """Prompt tokens that all verifications of an output share."""
    return sum(len(part["content"]) for part in render_verification(each["context"], [])) / 4


def _ragas_tokens(each: dict[str, Any]) -> float:
    """Prompt tokens of RAGAS's statements of an answer, and of its one call for all of them."""
    claims = [sentence.text for window in windows_of(each["output"]) for sentence in window.sentences]
    listed = json.dumps({"context": each["context"][0], "statements": claims}, indent=4)
    return RAGAS_FIXED_TOKENS + (len(each["output"]) + len(listed)) / 4


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
