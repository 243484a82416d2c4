"""Decisions on whether a model may ship, simulated where the truth is known: how often each word is said.

    python bench/inference_ship.py --rounds 20000

Gates at their limit and means at their threshold may not ship, so "may ship" is an error there; at better models it is
the power. "Before" is the decision on point estimates. The model with a gate and two thresholds at their limits shows
that several requirements need no adjustment.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.calibration import Rated, corrected_sum
from gradebook.rubrics.statistics.intervals import SCORES
from gradebook.rubrics.statistics.means import measure_scores, score_interval_of
from gradebook.rubrics.statistics.release import (
    Ship,
    decide_failures,
    decide_mean,
    failures_by_people,
    whole_outcome,
)

SIZES = (20, 50, 100, 200, 500)
LIMITS = (0.1, 0.05, 0.02)
Draw = Callable[[np.random.Generator, int], Floats]


def levels(*shares: float) -> Draw:
    """Scores of levels from 0 to 1, evenly apart, with these shares."""
    scores = np.linspace(0.0, 1.0, len(shares))
    return lambda rng, n: rng.choice(scores, n, p=shares)


def _crash(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.02, 0.15, np.clip(rng.normal(0.95, 0.015, n), 0.0, 1.0))


# Each with its true mean, which is the threshold.
MEANS: dict[str, tuple[Draw, float]] = {
    "levels .1/.3/.6": (levels(0.1, 0.3, 0.6), 0.75),
    "levels .05/.15/.80": (levels(0.05, 0.15, 0.80), 0.875),
    "0/1 at .9": (levels(0.1, 0.9), 0.9),
    "0/1 at .98": (levels(0.02, 0.98), 0.98),
    "beta(8, 3)": (lambda rng, n: rng.beta(8, 3, n), 8 / 11),
    ".95+-.015, 2% at .15": (_crash, 0.02 * 0.15 + 0.98 * 0.95),
}


@cache
def gate(failed: int, n: int, limit: float, *, is_hard: bool) -> Ship:
    """Word on a gate."""
    return decide_failures(failed, n, limit, is_hard=is_hard).outcome


def mean_word(values: Floats, threshold: float) -> Ship:
    """Word on a mean, by the interval of a run's table."""
    found = measure_scores(values)
    return decide_mean(found.mean, score_interval_of(found), threshold, found.unit_count, found.mean).outcome


def shares(words: list[Ship], rounds: int) -> str:
    """Percentages of may ship, undecided and may not ship."""
    counts = Counter(words)
    return " / ".join(f"{100 * counts[word] / rounds:.1f}" for word in (Ship.MAY, Ship.UNDECIDED, Ship.MAY_NOT))


def show_gates(rng: np.random.Generator, rounds: int) -> None:
    """Gates: at the limit, and at a fifth of it."""
    print("gate | limit | true rate | n | before, may ship | hard | tolerant   (may / undecided / may not, %)")
    for limit in LIMITS:
        for rate in (limit, limit / 5):
            for n in SIZES:
                failed = rng.binomial(n, rate, rounds)
                before = 100 * np.mean(failed == 0)
                hard, soft = ([gate(int(each), n, limit, is_hard=kind) for each in failed] for kind in (True, False))
                print(
                    f"| {limit} | {rate:.3g} | {n} | {before:.1f} | {shares(hard, rounds)} | {shares(soft, rounds)} |"
                )


def show_means(rng: np.random.Generator, rounds: int) -> None:
    """Means: at the threshold."""
    print("mean at its threshold | n | before, may ship | may / undecided / may not, %")
    for name, (draw, truth) in MEANS.items():
        for n in SIZES[:4]:
            samples = [draw(rng, n) for _ in range(rounds)]
            before = 100 * np.mean([each.mean() >= truth - 1e-9 for each in samples])
            words = [mean_word(each, truth) for each in samples]
            print(f"| {name} | {n} | {before:.1f} | {shares(words, rounds)} |")


def show_needed(rng: np.random.Generator, rounds: int) -> None:
    """A better model with the further cases that its undecided verdict named: how often they decide."""
    print("needed cases | n | named, median | decided with them, %")
    for n in (20, 50):
        named, decided = [], []
        for _ in range(rounds):
            values = levels(0.05, 0.15, 0.80)(rng, n)
            found = measure_scores(values)
            decision = decide_mean(found.mean, score_interval_of(found), 0.8, n, found.mean)
            if decision.more_count is None:
                continue
            named.append(decision.more_count)
            if decision.more_count > 20_000:
                continue
            whole = np.concatenate([values, levels(0.05, 0.15, 0.80)(rng, decision.more_count)])
            decided.append(mean_word(whole, 0.8) is not Ship.UNDECIDED)
        print(f"| mean .875, needs .8 | {n} | {np.median(named):.0f} | {100 * np.mean(decided):.1f} |")


def show_several(rng: np.random.Generator, rounds: int) -> None:
    """A gate and two means, one of them or all at the limit, the others clearly better."""
    print("several requirements | n | may / undecided / may not, %")
    for is_all in (False, True):
        for n in (100, 200):
            words = []
            for _ in range(rounds):
                values = levels(0.1, 0.3, 0.6)(rng, n)
                other = levels(0.1, 0.3, 0.6)(rng, n)
                failed = int(rng.binomial(n, 0.05 if is_all else 0.0))
                found = [gate(failed, n, 0.05, is_hard=False), mean_word(values, 0.75)]
                words.append(whole_outcome([*found, mean_word(other, 0.75 if is_all else 0.5)]))
            print(
                f"| {'all at the limit' if is_all else 'one mean at its threshold'} | {n} | {shares(words, rounds)} |"
            )


# Limit, people's failure rate, the judge's sensitivity to failures and its share of false ones.
JUDGES = (
    (0.05, 0.05, 0.5, 0.0),
    (0.1, 0.1, 0.5, 0.0),
    (0.1, 0.1, 0.7, 0.02),
    (0.2, 0.2, 0.6, 0.05),
    (0.05, 0.01, 0.9, 0.01),
    (0.1, 0.03, 0.9, 0.02),
)
RATED = ((500, 50), (500, 100), (1_000, 200), (2_000, 300))


def show_judged(rng: np.random.Generator, rounds: int) -> None:
    """Gates with a rate of their own, and means of 0/1 at their threshold, by a judge that errs, with some ratings."""
    print("limit, rate, found, false | n, rated | gate: judge alone | may / undecided / may not | mean: both")
    for limit, rate, found_rate, false_rate in JUDGES:
        for n, rated_count in RATED:
            words, means, alone, mean_alone = [], [], 0, 0
            for _ in range(rounds):
                fails = rng.random(n) < rate
                judged = np.where(fails, rng.random(n) < found_rate, rng.random(n) < false_rate).astype(np.float64)
                truth, known = fails[:rated_count].astype(np.float64), judged[:rated_count]
                by_people = failures_by_people(Rated(truth, known, judged[rated_count:]))
                words.append(decide_failures(0, n, limit, is_hard=False, interval=by_people.interval).outcome)
                alone += decide_failures(judged.sum(), n, limit, is_hard=False).outcome is Ship.MAY
                cases = np.arange(n)
                whole = Rated(1 - truth, 1 - known, 1 - judged[rated_count:], cases[:rated_count], cases[rated_count:])
                mean = corrected_sum([(1.0, whole)], n)
                interval = mean.interval(SCORES)
                if interval is not None:
                    means.append(decide_mean(mean.value, interval, 1 - limit, n, mean.value).outcome)
                mean_alone += mean_word(1.0 - judged, 1 - limit) is Ship.MAY
            print(
                f"| {limit}, {rate}, {found_rate}, {false_rate} | {n}, {rated_count} | {100 * alone / rounds:.1f} "
                f"| {shares(words, rounds)} | {100 * mean_alone / rounds:.1f} | {shares(means, rounds)} |"
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(20261129)
    show_judged(rng, max(rounds // 20, 1))
    show_gates(rng, rounds)
    show_means(rng, max(rounds // 5, 1))
    show_needed(rng, max(rounds // 10, 1))
    show_several(rng, max(rounds // 5, 1))


if __name__ == "__main__":
    main()
