"""How many outputs a second each check takes on one core, on 200-word outputs written here from a seed.

`python bench/checks.py [--n 50000]`. A plain Python loop counts the same words in the same run. The last line is the
figure for six checks together: outputs that had all six, a second.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from rubrics.checks import find_check, read_settings

SEED = 20261120
WORD_COUNT = 200
LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
ROUNDS = 3

CHECKS: dict[str, dict[str, Any]] = {
    "length_words": {"min": 20, "max": 199},
    "length_characters": {"max": 1100},
    "contains": {"any": ["refund", "thank you", "sorry"], "whole_word": True},
    "not_contains": {"any": ["guarantee", "as an ai"]},
    "matches_regex": {"pattern": r"[a-z0-9.]+@[a-z0-9-]+\.[a-z]{2,}"},
    "json_valid": {"kind": "object"},
    "count_sentences": {"max": 10},
    "count_paragraphs": {"max": 2},
    "count_bullets": {"min": 1},
    "starts_with": {"any": ["Sure", "Thank"]},
    "ends_with": {"any": [".", "!"]},
    "matches_reference": {"case_sensitive": False},
}
SIX = ("length_words", "length_characters", "contains", "not_contains", "matches_regex", "json_valid")


def write_outputs(count: int, rng: np.random.Generator) -> list[str]:
    """Outputs of `WORD_COUNT` words; one in ten is JSON, one in ten says sorry, one in ten holds an address."""
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
    """The shortest of a few runs, in seconds: the others waited for something else."""
    times_s = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run()
        times_s.append(time.perf_counter() - started)
    return min(times_s)


def time_check(name: str, shard: pa.Table) -> float:
    """Seconds for one check over the shard."""
    check = find_check(name)
    settings = read_settings(check, CHECKS[name])
    return time_best(lambda: check.function(shard, settings))


def main() -> None:
    """Time every check, the plain loop, and six together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=50_000, help="outputs to check")
    count = parser.parse_args().n
    outputs = write_outputs(count, np.random.default_rng(SEED))
    pa.set_cpu_count(1)
    column = pa.array(outputs)
    shard = pa.table({"output": column, "reference": column.take(pa.array(np.roll(np.arange(count), 1)))})
    times_s = {name: time_check(name, shard) for name in CHECKS}
    loop_s = time_best(lambda: [len(output.split()) for output in outputs])
    for name, time_s in times_s.items():
        print(f"{name:28}{count / time_s:14,.0f} outputs/s")
    print(f"{'plain loop of length_words':28}{count / loop_s:14,.0f} outputs/s")
    print(f"{'length_words over that loop':28}{loop_s / times_s['length_words']:14.1f} times as fast")
    print(f"{'six checks together':28}{count / sum(times_s[name] for name in SIX):14,.0f} outputs/s")


if __name__ == "__main__":
    main()
