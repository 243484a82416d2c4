"""Throughput of an evaluation of 200,000 outputs by 5 checks, from file to published tables, and of a plain loop.

    python bench/evaluate.py [--n 200000] [--wide] [--runner dask]

--wide: 20 checks, to measure the memory for many verdicts; use --n 1000000 for a million outputs.

Prints the outputs per second from the start of the run (without Prefect's start) to its publication, and the peak
memory of the whole command, including its report.
"""

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

WORDS = [
    "the",
    "system",
    "reduces",
    "local",
    "cost",
    "because",
    "a",
    "careful",
    "engineer",
    "measures",
    "every",
    "signal",
    "and",
    "the",
    "village",
    "library",
    "records",
    "what",
    "farmers",
    "say",
    "about",
    "rain",
    "soil",
    "seed",
    "harvest",
    "market",
    "price",
    "road",
    "bridge",
    "water",
    "energy",
    "school",
    "doctor",
    "night",
    "morning",
]

RUBRIC = """
id: bench_checks
version: 1.0.0
criteria:
  - {id: length, description: 100 to 300 words., weight: 1,
     method: {type: check, check: length_words, settings: {min: 100, max: 300}}}
  - {id: sentences, description: At least 5 sentences., weight: 1,
     method: {type: check, check: count_sentences, settings: {min: 5}}}
  - {id: keywords, description: Names the price or the market., weight: 1,
     method: {type: check, check: contains, settings: {any: [price, market], whole_word: true}}}
  - {id: no_ai, description: Does not speak of itself as a model., weight: 1,
     method: {type: check, check: not_contains, settings: {any: [as an AI, language model]}}}
  - {id: number, description: Names a number., weight: 1,
     method: {type: check, check: matches_regex, settings: {pattern: '[0-9]+'}}}
"""

WIDE_CHECKS = (
    "check: length_characters, settings: {max: 1500}",
    "check: length_lines, settings: {max: 3}",
    "check: count_paragraphs, settings: {max: 3}",
    "check: count_bullets, settings: {max: 3}",
    "check: contains, settings: {all: [the, village]}",
    "check: not_contains, settings: {any: [doctor]}",
    "check: matches_regex, settings: {pattern: 'rain|soil'}",
    "check: starts_with, settings: {any: [The, A]}",
    "check: ends_with, settings: {any: ['.']}",
    "check: json_valid, settings: {kind: object}",
    "check: count_headings, settings: {max: 0}",
    "check: has_closed_fences",
    "check: count_urls, settings: {max: 0}",
    "check: count_citations, settings: {max: 0}",
    "check: is_complete",
)


def wide_rubric() -> str:
    """Rubric of the five checks and fifteen more."""
    return RUBRIC + "".join(
        f"  - {{id: c{place}, description: Check {place}., weight: 1, method: {{type: check, {check}}}}}\n"
        for place, check in enumerate(WIDE_CHECKS)
    )


def write_outputs(path: Path, count: int) -> None:
    """Write seeded outputs of about 200 words in sentences."""
    dice = random.Random(7)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            words = dice.choices(WORDS, k=dice.randint(150, 250))
            sentences = [" ".join(words[at : at + 14]).capitalize() for at in range(0, len(words), 14)]
            text = ". ".join(sentences) + f". {number}" * (number % 3 > 0) + "."
            row = {"case_id": f"c{number // 2}", "model": "ab"[number % 2], "prompt": "Report.", "output": text}
            file.write(json.dumps(row) + "\n")


def plain_loop(path: Path) -> float:
    """Run the same five checks in a simple loop; returns seconds."""
    begin = time.perf_counter()
    passed = [0] * 5
    with path.open(encoding="utf-8") as file:
        for line in file:
            text = json.loads(line)["output"]
            lowered = text.lower()
            passed[0] += 100 <= len(text.split()) <= 300
            passed[1] += len([part for part in re.split(r"[.!?]", text) if part.strip()]) >= 5
            passed[2] += re.search(r"\b(price|market)\b", lowered) is not None
            passed[3] += "as an ai" not in lowered and "language model" not in lowered
            passed[4] += re.search(r"[0-9]+", text) is not None
    return time.perf_counter() - begin


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--wide", action="store_true", help="20 checks")
    parser.add_argument("--runner", default="threads", help="where checks are computed")
    given = parser.parse_args()
    count = given.n
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_outputs(folder / "outputs.jsonl", count)
        (folder / "rubric.yaml").write_text(wide_rubric() if given.wide else RUBRIC, encoding="utf-8")
        plain_s = plain_loop(folder / "outputs.jsonl")
        command = [
            sys.executable,
            "-m",
            "gradebook.flows.cli",
            "evaluate",
            "outputs.jsonl",
            "--rubric",
            "rubric.yaml",
            "--json",
        ]
        command += ["--runner", given.runner]
        begin = time.perf_counter()
        finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        wall_s = time.perf_counter() - begin
    if finished.returncode not in (0, 1):
        sys.exit(finished.stderr)
    run = json.loads(finished.stdout)
    for row in run["costs"]:
        print(f"{row['stage']:10} {row['criterion_id'] or '':10} {row['wall_s']:6.2f} s wall {row['cpu_s']:6.2f} s CPU")
    inside_s = (datetime.fromisoformat(run["finished_at"]) - datetime.fromisoformat(run["created_at"])).total_seconds()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak_mb = usage.ru_maxrss / 1024
    print(f"plain loop, only the five checks: {count / plain_s:,.0f} outputs/s; whole command {wall_s:.1f} s")
    print(f"CPU of all processes, including Prefect's server and workers: {usage.ru_utime + usage.ru_stime:.1f} s CPU")
    print(f"ingest to published: {count / inside_s:,.0f} outputs/s ({inside_s:.1f} s), peak {peak_mb:,.0f} MB")


if __name__ == "__main__":
    main()
