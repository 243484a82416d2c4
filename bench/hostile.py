"""Worst CPU time of each check on hostile texts of 1 MB.

    python bench/hostile.py [--check NAME] [--size 1000000]

Each check runs with the settings of its first example and with harder ones. Each hostile text is the output, then both
the output and every other column that the check reads. Prints a line per check with its worst text; the last line is
the worst of all. Left out: audio checks, which read no text, and checks without an example, which need a file.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.rubrics.check_kit.check import Check, Example, example_shard, read_settings
from gradebook.rubrics.checks.registry import check_names, find_check
from tests.support.hostile_settings import WORSE
from tests.support.hostile_texts import hostile_texts

SHAPES = (
    "CRLF",
    "CJK sentences",
    "choices",
    "dates",
    "distinct numbers",
    "distinct words",
    "fences",
    "growing quotes",
    "long ligatures",
    "nested lists",
    "one letter",
    "phone near-misses",
    "sorted bullets",
)
OTHERS = ("reference", "context", "prompt")


class Timing(NamedTuple):
    """CPU seconds of a check on one row, with a description of the row."""

    cpu_s: float
    check: str
    words: str


def columns_of(check: Check, text: str, others: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Other columns as in the example, then with the hostile text in each text column."""
    yield "the output", others
    if read := [name for name in OTHERS if name in check.columns]:
        hostile = {name: [text] if name == "context" else text for name in read}
        yield f"the output and {' and '.join(read)}", {**others, **hostile}


def worst_run(check: Check, texts: Mapping[str, str]) -> Timing:
    """Slowest of all runs of a check."""
    example, timings = check.examples[0], []
    for place, given in enumerate((example.settings, *WORSE.get(check.name, []))):
        settings = read_settings(check, given)
        for shape, text in texts.items():
            for where, others in columns_of(check, text, example.others):
                shard = example_shard(check, Example(text, None, others=others))
                started = time.process_time()
                check.function(shard, settings)
                cpu_s = time.process_time() - started
                timings.append(Timing(cpu_s, check.name, f"{shape} as {where}, settings {place}"))
    return max(timings)


def main() -> None:
    """Time the named check, or all checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", choices=check_names(), metavar="NAME", help="only this check")
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of a text")
    given = parser.parse_args()
    pa.set_cpu_count(1)
    texts = {shape: hostile_texts(given.size)[shape] for shape in SHAPES}
    timings = []
    for name in [given.check] if given.check else check_names():
        check = find_check(name)
        if check.examples and "audio" not in check.columns:
            worst_run(
                check, {shape: text[:1_000] for shape, text in texts.items()}
            )  # warm-up: loads word lists and models
            timings.append(worst_run(check, texts))
            print(f"{timings[-1].cpu_s:8.2f} s  {name:48}{timings[-1].words}", flush=True)
    worst = max(timings)
    print(f"{worst.cpu_s:8.2f} s at most: {worst.check}, {worst.words}")


if __name__ == "__main__":
    main()
