"""Error rates of the release rule where outputs did not change, and where the judge refuses some.

python bench/inference_release.py [ROUNDS]

Unchanged outputs: each pair changes with some probability; the others have the same output and score. Four ways to
decide whether B is not worse by the margin: unchanged pairs as differences of 0; the same, but passed by definition
where no output changed; share of changed pairs times their mean difference, each with its interval (Bonferroni); the
same with the share of these cases taken as known. Refusals: the judge refuses outputs of two equal models by side and
quality, and the missing scores are left out, or have their worst values.
"""

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import DIFFERENCES, measure_means
from gradebook.rubrics.statistics.means import MeanDifference, count_moved, measure_difference

MARGIN, TAIL = 0.02, 0.025
Bools = NDArray[np.bool_]


def measure(differences: Floats, chosen_from: float = 1) -> MeanDifference:
    """Intervals of many comparisons. differences: (round, pair), NaN where a pair is left out."""
    return measure_difference(measure_means(differences), count_moved(differences), chosen_from=chosen_from)


def worlds(rng: np.random.Generator, shape: tuple[int, int]) -> Iterator[tuple[str, Bools, Floats]]:
    """Name, whether each pair changed and the differences of the changed, (round, pair)."""
    for share, loss in ((0.02, 1.0), (0.04, 0.5), (0.1, 0.2), (0.5, 0.04)):
        yield f"worse by .02: {share:.0%} lose {loss:g}", rng.random(shape) < share, np.full(shape, -loss)
    for share in (0.1, 0.5):
        moved = rng.choice([-0.5, 0.5], shape, p=[0.5 + MARGIN / share, 0.5 - MARGIN / share])
        yield f"worse by .02: {share:.0%} move by .5", rng.random(shape) < share, moved
    for share in (0.0, 0.01, 0.05, 0.2, 1.0):
        moved = rng.choice([-0.3, 0.0, 0.3], shape, p=[0.25, 0.5, 0.25])
        yield f"equal: {share:.0%} change, half by .3", rng.random(shape) < share, moved


def product_lows(is_changed: Bools, differences: Floats, *, is_known: bool) -> Floats:
    """Lower ends of the share of changed pairs times their mean difference. is_known: of the share of these cases."""
    n, count = is_changed.shape[1], is_changed.sum(axis=1)
    of_changed = measure(np.where(is_changed, differences, np.nan), chosen_from=1 if is_known else 2)
    least = np.where(np.isnan(of_changed.low), DIFFERENCES.low, of_changed.low)
    if is_known:
        return np.where(count == 0, 0.0, least) * count / n
    low = betaincinv(np.maximum(count, 1), n - count + 1, TAIL / 2) * (count > 0)
    high = np.where(count < n, betaincinv(count + 1, np.maximum(n - count, 1), 1 - TAIL / 2), 1.0)
    return np.where(least < 0, least * high, least * low)


def decide_unchanged(round_count: int) -> None:
    """Print how often each way passes the rule."""
    print(f"{'unchanged outputs':34}{'pairs':>6}{'zeros':>8}{'now':>7}{'share x mean':>14}{'share known':>13}")
    for n in (30, 100, 160, 300, 1_000):
        for name, is_changed, moved in worlds(np.random.default_rng(n), (round_count, n)):
            differences = np.where(is_changed, moved, 0.0)
            lows = measure(differences).low
            ways = [lows, np.where(is_changed.any(axis=1), lows, 0.0)]
            ways += [product_lows(is_changed, differences, is_known=is_known) for is_known in (False, True)]
            rates = [100 * float((low > -MARGIN).mean()) for low in ways]
            print(f"{name:34}{n:>6}{rates[0]:>8.1f}{rates[1]:>7.1f}{rates[2]:>14.1f}{rates[3]:>13.1f}", flush=True)


REFUSALS = {  # of good and bad outputs of A, then of B
    "60% of B's bad outputs": (0.0, 0.0, 0.0, 0.6),
    "20% of B's bad outputs": (0.0, 0.0, 0.0, 0.2),
    "30% of both sides' bad outputs": (0.0, 0.3, 0.0, 0.3),
    "1% of all": (0.01, 0.01, 0.01, 0.01),
    "0.1% of all": (0.001, 0.001, 0.001, 0.001),
}


def decide_refused(round_count: int) -> None:
    """Print how often B is better beyond chance and passes the rule, by what is scored, and at the worst values."""
    columns = f"{'better':>9}{'now':>6}{'worse by .02 passes':>21}{'now':>6}{'equal':>8}{'now':>6}"
    print(f"\n{'refused':32}{'pairs':>6}{columns}")
    for name, shares in REFUSALS.items():
        for n in (50, 200, 2_000):
            rng = np.random.default_rng(n)
            equal, worse = (_refused_rates(rng, (round_count, n), shares, loss) for loss in (0.0, MARGIN))
            shown = [f"{100 * rate:.1f}" for rate in (*equal[:2], *worse[2:], *equal[2:])]
            first = f"{shown[0]:>9}{shown[1]:>6}{shown[2]:>21}{shown[3]:>6}{shown[4]:>8}{shown[5]:>6}"
            print(f"{name:32}{n:>6}{first}", flush=True)


def _refused_rates(
    rng: np.random.Generator, shape: tuple[int, int], shares: tuple[float, float, float, float], loss: float
) -> list[float]:
    """Rates of better and of passing, each by what is scored and at the worst values. loss: of B, in the mean."""
    good_a, bad_a, good_b, bad_b = shares
    a = rng.choice([0.0, 0.5, 1.0], shape, p=[0.1, 0.1, 0.8])
    b = rng.choice([0.0, 0.5, 1.0], shape, p=[0.1 + loss, 0.1, 0.8 - loss])
    missing_a = rng.random(shape) < np.where(a == 1.0, good_a, bad_a)
    missing_b = rng.random(shape) < np.where(b == 1.0, good_b, bad_b)
    scored = np.where(missing_a | missing_b, np.nan, b - a)
    found = measure(scored)
    worst = measure(np.where(missing_b, 0.0, b) - np.where(missing_a, 1.0, a)).low
    is_better = (found.p <= 2 * TAIL) & (np.nanmean(scored, axis=1) > 0)
    rates = [is_better, is_better & (worst > 0), found.low > -MARGIN, worst > -MARGIN]
    return [float(rate.mean()) for rate in rates]


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    decide_unchanged(rounds)
    decide_refused(rounds)
