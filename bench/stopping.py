"""Error rates and savings of sequential stopping, by simulation.

python bench/stopping.py [STREAMS]

Differences of two scores on five levels with a standard deviation of 0.35. Per rule, suite size and true difference:
the share of streams that are decided, of those decided for the wrong side (without a difference: for either side; of
`suite`: against the mean of the whole suite), and the mean share of cases that are judged.
"""

import sys
import time
from collections.abc import Iterator

import numpy as np

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import measure_means
from gradebook.rubrics.statistics.means import count_moved, measure_difference
from gradebook.rubrics.statistics.stopping import StopRule, read_stop_rule, wealth_paths

STEPS = np.linspace(-1, 1, 9)
SPREAD = 0.3525  # of the untilted steps: makes the standard deviation 0.35
SIZES, DIFFERENCES = (200, 1_000), (0.0, 0.03, 0.05, 0.10)
RULES = ("looks=10", "looks=10,pocock", "suite", "always")
PART = 500  # streams in memory


def draw(rng: np.random.Generator, shape: tuple[int, int], mean: float) -> Floats:
    """Differences of pairs, (stream, case), of nine steps with an exponentially tilted mean."""
    base = np.exp(-0.5 * (STEPS / SPREAD) ** 2)
    low, high = -5.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        shares = base * np.exp(middle * STEPS)
        shares /= shares.sum()
        low, high = (middle, high) if shares @ STEPS < mean else (low, middle)
    return rng.choice(STEPS, size=shape, p=shares)


def decide(rule: StopRule, found: Floats) -> tuple[Floats, Floats]:
    """Sign of the decision, 0 without one, and the share of cases judged: (stream,) each."""
    case_count = found.shape[1]
    ends = np.array(rule.ends(case_count))
    signs = np.zeros((len(found), len(ends)))
    if rule.kind == "suite":
        above, below = wealth_paths((found + 1) / 2, case_count, np.full(len(found), 0.5))
        limit = np.log(2 / rule.alpha)
        for sign, path in ((1, above), (-1, below)):
            signs += sign * (np.maximum.accumulate(path, axis=1)[:, ends - 1] >= limit)
        whole = np.sign(np.round(found.sum(axis=1), 9))
        signs[:, -1] = np.where((signs[:, :-1] == 0).all(axis=1), whole, signs[:, -1])
    else:
        for number, (end, level) in enumerate(zip(ends, rule.levels(ends, case_count), strict=True)):
            seen = found[:, :end]
            is_beyond = measure_difference(measure_means(seen), count_moved(seen)).p <= level
            signs[:, number] = np.where(is_beyond, np.sign(seen.mean(axis=1)), 0)
    is_decided = (signs != 0).any(axis=1)
    first = np.where(is_decided, (signs != 0).argmax(axis=1), len(ends) - 1)
    return signs[np.arange(len(found)), first], ends[first] / case_count


def rates(rule: StopRule, size: int, difference: float, stream_count: int) -> tuple[float, float, float]:
    """Shares of streams decided and decided wrongly, and mean share of cases judged."""
    rng = np.random.default_rng(int(1_000 * difference) + size)
    parts: list[tuple[Floats, Floats, Floats]] = []
    for begin in range(0, stream_count, PART):
        found = draw(rng, (min(PART, stream_count - begin), size), difference)
        truth = np.sign(np.round(found.sum(axis=1), 9)) if rule.kind == "suite" else np.full(len(found), difference > 0)
        parts.append((*decide(rule, found), truth))
    signs, judged, truth = (np.concatenate(each) for each in zip(*parts, strict=True))
    return float((signs != 0).mean()), float(((signs != 0) & (signs != truth)).mean()), float(judged.mean())


def lines(stream_count: int) -> Iterator[str]:
    """Rows of a table in Markdown."""
    yield "| rule | cases | " + " | ".join(f"difference {each:g}" for each in DIFFERENCES) + " |"
    yield "| --- | --- |" + " --- |" * len(DIFFERENCES)
    for name in RULES:
        for size in SIZES:
            found = [rates(read_stop_rule(name), size, difference, stream_count) for difference in DIFFERENCES]
            cells = (f"{decided:.3f}, {wrong:.4f}, {judged:.2f}" for decided, wrong, judged in found)
            yield f"| `{name}` | {size:,} | {' | '.join(cells)} |"


def main(stream_count: int) -> None:
    """Print decided, wrong and judged shares."""
    began = time.process_time()
    for line in lines(stream_count):
        print(line, flush=True)
    print(f"{stream_count:,} streams each, {time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
