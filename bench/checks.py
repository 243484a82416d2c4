"""Throughput of each check on one core, in outputs of 230 seeded words per second.

    python bench/checks.py [--n 50000] [--ifeval FOLDER]

A plain Python loop over the same words runs for comparison. FOLDER: the published IFEval prompts (input_data.jsonl) and
responses (input_response_data_*.jsonl); each instruction is checked on its own response. The last lines are for six
checks together: in one thread and in two, which share the GIL.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.rubrics.check_kit.check import Example, example_shard, read_settings
from gradebook.rubrics.checks.registry import check_names, find_check

SEED = 20261120
WORD_COUNT = 230
LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
ROUNDS = 3
LEAST_S = 1.0  # of a measurement; a single round may be too short
SHARES = {"columns": 1.0, "rows": 0.1, "heavy": 0.02}  # of the outputs; slow checks are timed on fewer

# Any other check is timed with the settings of its first example.
SETTINGS: dict[str, dict[str, Any]] = {
    "length_words": {"min": 20, "max": 229},
    "length_characters": {"max": 1100},
    "contains": {"any": ["refund", "thank you", "sorry"], "whole_word": True},
    "not_contains": {"any": ["guarantee", "as an ai"]},
    "matches_regex": {"pattern": r"[a-z0-9.]+@[a-z0-9-]+\.[a-z]{2,}"},
    "json_valid": {"kind": "object"},
    "count_sentences": {"max": 10},
}
SIX = ("length_words", "count_sentences", "contains", "not_contains", "json_valid", "matches_regex")


def write_outputs(count: int, rng: np.random.Generator) -> list[str]:
    """Outputs of `WORD_COUNT` words; one in ten is JSON, one in ten an apology, one in ten has an address."""
    lengths = rng.integers(1, 10, 3000)
    vocabulary = np.array(["".join(rng.choice(LETTERS, length)) for length in lengths])
    return [_write_output(rng.choice(vocabulary, WORD_COUNT).tolist(), place % 10) for place in range(count)]


def _write_output(words: list[str], kind: int) -> str:
    if kind == 0:
        words[0], words[-1] = '{"text": "' + words[0], words[-1] + '"}'
    if kind == 1:
        words[100] = "sorry"
    if kind == 2:
        words[150] = "ada@example.org"
    sentences = [" ".join(words[start : start + 20]) for start in range(0, WORD_COUNT, 20)]
    return (". " if kind == 0 else ".\n\n").join(sentences)


def time_best(run: Callable[[], object]) -> float:
    """Shortest of a few runs, in seconds; the others waited for other processes."""
    times_s: list[float] = []
    while len(times_s) < ROUNDS or sum(times_s) < LEAST_S:
        started = time.perf_counter()
        run()
        times_s.append(time.perf_counter() - started)
    return min(times_s)


def time_check(name: str, outputs: pa.Array) -> float:
    """Outputs per second of one check, with the other columns of its first example."""
    check = find_check(name)
    example = check.examples[0]
    count = max(1, int(len(outputs) * SHARES[check.cost]))
    row = example_shard(check, Example("", None, others=example.others))
    shard = pa.table({key: _repeated(row, key, outputs, count) for key in check.columns})
    settings = read_settings(check, SETTINGS.get(name, example.settings))
    return count / time_best(lambda: check.function(shard, settings))


def _repeated(row: pa.Table, column: str, outputs: pa.Array, count: int) -> pa.Array:
    return outputs.slice(0, count) if column == "output" else row.column(column).take(pa.array([0] * count))


def run_six(shard: pa.Table) -> None:
    """Run all six checks over a shard."""
    for name in SIX:
        check = find_check(name)
        check.function(shard, read_settings(check, SETTINGS[name]))


def time_six(shard: pa.Table, core_count: int) -> float:
    """Outputs per second through all six checks, with one part of the shard per thread."""
    size = shard.num_rows // core_count
    parts = [shard.slice(index * size, size) for index in range(core_count)]
    with ThreadPoolExecutor(core_count) as threads:
        return size * core_count / time_best(lambda: list(threads.map(run_six, parts)))


def time_plain(texts: list[str]) -> float:
    """Outputs per second of the plain loop."""
    return len(texts) / time_best(lambda: sum(len(text.split()) for text in texts))


def time_ifeval(folder: Path) -> tuple[float, float]:
    """Responses per second of IFEval: each response with its own instructions, and all types on all responses."""
    lines = next(folder.glob("input_response_data_*.jsonl")).read_text(encoding="utf-8").splitlines()
    responses = {row["prompt"]: row["response"] for row in map(json.loads, lines)}
    rows = [json.loads(line) for line in (folder / "input_data.jsonl").read_text(encoding="utf-8").splitlines()]
    tasks = [
        (find_check(name), {key: value for key, value in kwargs.items() if value is not None}, responses[row["prompt"]])
        for row in rows
        for name, kwargs in zip(row["instruction_id_list"], row["kwargs"], strict=True)
    ]
    prepared = [
        (check, read_settings(check, kwargs), pa.table({"output": [response]})) for check, kwargs, response in tasks
    ]
    own_s = time_best(lambda: [check.function(shard, settings) for check, settings, shard in prepared])
    shard = pa.table({"output": [responses[row["prompt"]] for row in rows]})
    by_type = {check.name: (check, settings) for check, settings, _ in prepared}
    all_s = time_best(lambda: [check.function(shard, settings) for check, settings in by_type.values()])
    return len(rows) / own_s, len(rows) / all_s


def main() -> None:
    """Time every check, the plain loop, IFEval if its files are given, and six checks together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=50_000, help="outputs to check")
    parser.add_argument("--ifeval", type=Path, help="folder of IFEval's prompts and responses")
    given = parser.parse_args()
    texts = write_outputs(given.n, np.random.default_rng(SEED))
    pa.set_cpu_count(1)
    outputs = pa.array(texts)
    for name in check_names():
        if not find_check(name).examples:  # needs a file of the user
            continue
        print(f"{name:48}{time_check(name, outputs):14,.0f} outputs/s  {find_check(name).cost}")
    print(f"{'plain loop of length_words':48}{time_plain(texts):14,.0f} outputs/s")
    if given.ifeval:
        own, every = time_ifeval(given.ifeval)
        print(f"{'IFEval, each response by its own instructions':48}{own:14,.0f} responses/s")
        print(f"{'IFEval, each response by all 25 types':48}{every:14,.0f} responses/s")
    shard = pa.table({"output": outputs})
    one, two = time_six(shard, 1), time_six(shard, 2)
    print(f"{'six checks together, one thread':48}{one:14,.0f} outputs/s")
    print(f"{'six checks together, two threads':48}{two:14,.0f} outputs/s, {two / one:.2f} times one")


if __name__ == "__main__":
    main()
