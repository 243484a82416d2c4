"""What reading traces costs beside `orjson.loads` of the same file, and a run with eight checks of steps.

    python bench/traces.py [--spans 20000] [--traces 10000] [--steps 40]

Spans have 2 KB each: of models with the messages so far, and of tools. The run is whole, from the ingest to the tables.
The first part asks a judge on loopback about five criteria of a trajectory, and counts the tokens that it had cached.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from gradebook.tasks.datasets.discovery import read_rows
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run
from gradebook.tasks.stages.submit import StagesInThreads
from tests.support.agent_traces import otlp_file, otlp_span
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import NOW

SPANS_PER_TRACE, SPANS_PER_LINE = 10, 100
CHECKS = {
    "called": "tool_called, settings: {tools: [search]}",
    "not_called": "tool_called, settings: {tools: [delete], max: 0}",
    "in_order": "tools_in_order, settings: {tools: [search, book]}",
    "no_repeats": "repeated_calls, settings: {max: 2}",
    "few_steps": "count_steps, settings: {max: 60}",
    "cheap": "step_total, settings: {measure: tokens, max: 100000}",
    "recovered": "errors_recovered",
    "ended": "answer_last",
}
JUDGED, CACHED_TOKENS = 5, 128


def spans() -> Iterator[dict[str, Any]]:
    """Spans of 2 KB, of models and tools in turn."""
    number = 0
    while True:
        trace, place = f"{number // SPANS_PER_TRACE:032x}", number % SPANS_PER_TRACE
        said = [{"role": "user", "parts": [{"type": "text", "content": f"Question {trace} " + "word " * 200}]}]
        answer = [{"role": "assistant", "parts": [{"type": "text", "content": f"Answer {place}"}]}]
        fields: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 900,
            "gen_ai.input.messages": orjson.dumps(said).decode(),
            "gen_ai.output.messages": orjson.dumps(answer).decode(),
        }
        if place % 2:
            fields = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
            fields |= {"gen_ai.tool.call.arguments": '{"q": "rooms"}', "gen_ai.tool.call.result": "room " * 280}
        yield otlp_span(place, fields, trace)
        number += 1


def write_spans(path: Path, count: int) -> None:
    made = spans()
    with path.open("wb") as file:
        for _ in range(count // SPANS_PER_LINE):
            file.write(orjson.dumps(otlp_file([next(made) for _ in range(SPANS_PER_LINE)])) + b"\n")


def cpu_of(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure_reading(folder: Path, count: int) -> None:
    path = folder / "spans.jsonl"
    write_spans(path, count)

    def parse() -> None:
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)

    def read() -> None:
        found = sum(isinstance(row.content, dict) for row in read_rows([path], {}))
        if found != count // SPANS_PER_TRACE:
            raise SystemExit(f"found {found} rows, expected {count // SPANS_PER_TRACE}")

    bare, whole = min(cpu_of(parse) for _ in range(3)), min(cpu_of(read) for _ in range(3))
    size = path.stat().st_size
    print(
        f"{count:,} spans of {size / count:,.0f} bytes: {count / whole:,.0f} a CPU second, {bare / whole:.2f} x orjson"
    )


def run(folder: Path, outputs: Path, rubric: str, judge: str | None = None) -> tuple[float, float]:
    """Wall and CPU seconds of a whole run."""
    (folder / "rubric.yaml").write_text(rubric, encoding="utf-8")
    lake = f"sqlite:{folder}/lake/catalog.sqlite"
    asked = EvaluationRequest(str(outputs), str(folder / "rubric.yaml"), judge, lake=lake, has_page=False)
    begin, cpu = time.perf_counter(), time.process_time()
    with opened_run(asked, NOW) as opened:
        complete_run(opened, StagesInThreads())
    return time.perf_counter() - begin, time.process_time() - cpu


def measure_run(folder: Path, trace_count: int, step_count: int) -> None:
    outputs = folder / "runs.jsonl"
    tools = ("search", "read", "book")
    with outputs.open("wb") as file:
        for number in range(trace_count):
            steps: list[dict[str, Any]] = [
                {
                    "kind": "tool",
                    "name": tools[place % 3],
                    "input": {"q": place},
                    "output": "found " * 20,
                    "tokens": 100,
                }
                for place in range(step_count - 1)
            ]
            steps.append({"kind": "model", "output": f"Answer {number}."})
            row = {"case_id": f"c{number}", "model": "m", "output": f"Answer {number}.", "steps": steps}
            file.write(orjson.dumps(row) + b"\n")
    criteria = "".join(
        f"  - {{id: {name}, description: {name}., weight: 1, method: {{type: check, check: {check}}}}}\n"
        for name, check in CHECKS.items()
    )
    wall, cpu = run(folder, outputs, f"id: steps\nversion: 1.0.0\ncriteria:\n{criteria}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    about = f"{trace_count:,} runs x {step_count} steps, {len(CHECKS)} checks"
    print(f"{about}: {wall:.1f} s, {cpu:.1f} s CPU, {peak:,.0f} MB")


def measure_judging(folder: Path) -> None:
    (folder / "judged").mkdir()
    steps = [{"kind": "tool", "name": "read", "output": f"{place} " * 400} for place in range(20)]
    row = {"case_id": "c", "model": "m", "output": "Done.", "steps": steps}
    (folder / "judged" / "run.jsonl").write_bytes(orjson.dumps(row))
    criteria = "".join(
        f"  - {{id: c{number}, description: Is {number} good?, weight: 1, scale: {{min: 1, max: 5}}, "
        "method: {type: judge, sees: trajectory}}\n"
        for number in range(JUDGED)
    )
    with LoopbackJudge() as judge:
        os.environ |= {"OPENAI_API_KEY": "sk-bench", "OPENAI_BASE_URL": judge.base_url}
        run(folder / "judged", folder / "judged" / "run.jsonl", f"id: j\nversion: 1.0.0\ncriteria:\n{criteria}", "m")
        prefix = judge.prompt_tokens // JUDGED
        paid = judge.prompt_tokens - judge.cached_tokens
    print(f"{JUDGED} criteria of one trajectory: {paid / prefix:.2f} x its prompt paid in full, of {JUDGED}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=20_000)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=40)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure_judging(folder)
        measure_reading(folder, given.spans)
        measure_run(folder, given.traces, given.steps)


if __name__ == "__main__":
    main()
