"""Error rates in worlds without a true difference: of comparisons, weak spots and the best checkpoint.

python bench/inference.py [ROUNDS]

Weak spots: 300 outputs with 6 metadata keys of 5 values and 5 criteria. "Interval": the former
rule, a slice whose 95% interval lies below the mean of the rest.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.chance import luck_of_best
from gradebook.rubrics.statistics.mean_difference import count_moved, measure_difference
from gradebook.rubrics.statistics.paired import adjust_for_many
from gradebook.rubrics.statistics.score_intervals import worth_ends
from gradebook.rubrics.statistics.unpaired import measure_unpaired
from gradebook.rubrics.statistics.vectorised_means import Means, measure_means
from gradebook.rubrics.statistics.weak_slices import shortfall_test

SIZES = (10, 20, 50, 100, 300)
ALPHA = 0.05
LEVELS, SHARES = [0.0, 0.5, 1.0], [0.05, 0.15, 0.8]


def worlds(rng: np.random.Generator, round_count: int, n: int) -> Iterator[tuple[str, Floats]]:
    """Differences of each world, (round, case), of mean 0."""
    shape = (round_count, n)
    yield "normal, sd 0.1", np.clip(rng.normal(0, 0.1, shape), -1, 1)
    yield "normal, sd 0.3", np.clip(rng.normal(0, 0.3, shape), -1, 1)
    yield "levels .05/.15/.80", rng.choice(LEVELS, shape, p=SHARES) - rng.choice(LEVELS, shape, p=SHARES)
    yield "10% moved by 0.5", rng.choice([-0.5, 0, 0.5], shape, p=[0.05, 0.9, 0.05])
    yield "3% moved by 1", rng.choice([-1.0, 0, 1], shape, p=[0.015, 0.97, 0.015])
    yield "+0.1 in 90%, -0.9 in 10%", rng.choice([0.1, -0.9], shape, p=[0.9, 0.1])
    yield "+0.05 in 40%, -1 in 2%", rng.choice([0.05, 0, -1], shape, p=[0.4, 0.58, 0.02])
    yield "+0.1 in 45%, -0.3 in 15%", rng.choice([0.1, 0, -0.3], shape, p=[0.45, 0.4, 0.15])


OUTPUTS, KEYS, VALUES, CRITERIA = 300, 6, 5, 5
SLICE_WORLDS = {
    "levels .05/.15/.80": (LEVELS, SHARES, 0.0),
    "levels .10/.30/.60": (LEVELS, [0.1, 0.3, 0.6], 0.0),
    "0/1 at .97": ([0.0, 1.0], [0.03, 0.97], 0.0),
    "levels .05/.15/.80, one slice 0.3 lower": (LEVELS, SHARES, 0.3),
}


@dataclass(frozen=True, slots=True)
class Searched:
    """Figures of one search. All arrays: (slice and criterion,)."""

    shortfall: Floats
    is_below: NDArray[np.bool_]  # by the former rule
    p_adjusted: Floats
    estimate: Floats


def search(rng: np.random.Generator, levels: list[float], shares: list[float], loss: float) -> Searched:
    """Search one run for weak spots. loss: of the first slice on the first criterion."""
    keys = rng.integers(0, VALUES, (KEYS, OUTPUTS))
    scores = rng.choice(levels, (CRITERIA, OUTPUTS), p=shares)
    scores[0, (keys[0] == 0) & (rng.random(OUTPUTS) < loss / scores[0].mean())] = 0.0
    is_in = (keys[:, None, :] == np.arange(VALUES)[None, :, None]).reshape(-1, OUTPUTS).astype(float)
    n = np.broadcast_to(is_in.sum(1), (CRITERIA, KEYS * VALUES))
    total, means = scores.sum(1)[:, None], scores @ is_in.T / n
    rest_means = (total - n * means) / (OUTPUTS - n)
    sd = np.sqrt(np.maximum(scores**2 @ is_in.T / n - means**2, 0) * n / (n - 1))
    measured = Means(*(each.ravel() for each in (n, n, means, sd, sd / np.sqrt(n), n - 1.0)))
    high = worth_ends(measured)[1]
    off = scores - scores.mean(1, keepdims=True)
    skewness = (off**3).mean(1) / (off**2).mean(1) ** 1.5
    of_criterion = [np.repeat(each, KEYS * VALUES) for each in (scores.std(1, ddof=1), skewness)]
    shortfall = (rest_means - means).ravel()
    p, error = shortfall_test(n.ravel(), OUTPUTS - n.ravel(), shortfall, *of_criterion, np.ones(n.size))
    p_adjusted, estimate = adjust_for_many(p), np.zeros(p.size)
    for group in (p_adjusted <= ALPHA, p_adjusted > ALPHA):
        s, e = shortfall[group], error[group]
        variance = max(0.0, float(((s / e) ** 2 - 1).sum() / (1 / e**2).sum())) if s.size else 0.0
        estimate[group] = s * variance / (variance + e**2)
    return Searched(shortfall, high < rest_means.ravel(), p_adjusted, estimate)


def search_slices(round_count: int) -> None:
    """Print how often a search finds a weak spot, and by how much the shown shortfalls are off."""
    print(f"\n{'world':42}{'interval':>9}{'now':>7}{'false':>7}{'found':>7}{'shown':>8}{'estimate':>10}")
    for name, (levels, shares, loss) in SLICE_WORLDS.items():
        rng, rows = np.random.default_rng(2), []
        for _ in range(round_count):
            found = search(rng, levels, shares, loss)
            is_clear = found.p_adjusted <= ALPHA
            is_null = np.arange(is_clear.size) >= (loss > 0)
            wrong = (is_clear & is_null).sum() / max(is_clear.sum(), 1)
            lowest = int(found.shortfall.argmax())
            shown = found.shortfall[lowest], found.estimate[lowest]
            rows.append((found.is_below.any(), is_clear.any(), wrong, is_clear[0], *shown))
        *rates, shown, estimate = np.mean(rows, axis=0)
        print(f"{name:42}{100 * rates[0]:>9.1f}" + "".join(f"{100 * rate:>7.1f}" for rate in rates[1:]), end="")
        print(f"{shown:>8.3f}{estimate:>10.3f}")


SERIES, FIRST, NOISE_SD = 20, 10, 0.3
MOST_SCORES = 20_000_000


def follow_checkpoints(round_count: int) -> None:
    """Print the mean difference from the best of a series of checkpoints: the true one, as measured, and corrected."""
    print(f"\n{'change a checkpoint':22}{'cases':>6}{'true':>9}{'measured':>10}{'best_diff':>10}")
    rng = np.random.default_rng(4)
    for n in (50, 200, 1000):
        for change in (0.0, 0.005, -0.005):
            parts = [_differences_from_best(rng, n, change, count) for count in _parts_of(round_count, n)]
            true, measured, corrected = np.concatenate(parts).mean(axis=0)
            print(f"{change:<22}{n:>6}{true:>9.3f}{measured:>10.3f}{corrected:>10.3f}")


def _parts_of(round_count: int, n: int) -> Iterator[int]:
    """Rounds at a time, whose scores fit in memory."""
    size = max(1, MOST_SCORES // (n * (SERIES + 1)))
    yield from (min(size, round_count - start) for start in range(0, round_count, size))


def _differences_from_best(rng: np.random.Generator, n: int, change: float, round_count: int) -> Floats:
    """True, measured and corrected difference of each later checkpoint: (round and checkpoint, 3).

    A case's own score cancels in every difference.
    """
    noise = rng.standard_normal((round_count, SERIES + 1, n), dtype=np.float32) * np.float32(NOISE_SD / np.sqrt(2))
    steps = change * np.arange(SERIES + 1)
    means, each = steps + noise.mean(axis=2, dtype=np.float64), np.arange(round_count)
    found = []
    for place in range(FIRST, SERIES + 1):
        best = means[:, :place].argmax(axis=1)
        errors = (noise[:, place] - noise[each, best]).std(axis=1, ddof=1, dtype=np.float64) / np.sqrt(n)
        measured = means[:, place] - means[each, best]
        luck = [luck_of_best(*one) for one in zip(means[:, :place], errors.tolist(), strict=True)]
        found.append(np.stack([(place - best) * change, measured, measured + luck], axis=1))
    return np.concatenate(found)


UNPAIRED = {  # shares of the levels on each side
    "even shares": ([0.33, 0.34, 0.33], [0.33, 0.34, 0.33]),
    ".05/.15/.80": (SHARES, SHARES),
    ".05/.15/.80 and even": (SHARES, [0.33, 0.34, 0.33]),
    "0/.05/.95": ([0.0, 0.05, 0.95], [0.0, 0.05, 0.95]),
    "0/1 at .97 and .90": ([0.03, 0.0, 0.97], [0.1, 0.0, 0.9]),
}
UNPAIRED_SIZES = ((50, 50), (50, 80), (80, 50), (200, 1000))


def compare_different_cases(round_count: int) -> None:
    """Print how often Welch's interval over different cases holds the true difference."""
    print(f"\n{'unpaired: levels on A and B':30}{'cases':>10}{'1 output':>10}{'3 outputs':>11}")
    rng = np.random.default_rng(5)
    for name, (of_a, of_b) in UNPAIRED.items():
        for counts in UNPAIRED_SIZES:
            rates = [_unpaired_coverage(rng, round_count, of_a, of_b, counts, samples) for samples in (1, 3)]
            print(f"{name:30}{counts[0]:>6}/{counts[1]}" + "".join(f"{100 * rate:>10.1f}" for rate in rates))


def _unpaired_coverage(
    rng: np.random.Generator,
    round_count: int,
    of_a: list[float],
    of_b: list[float],
    counts: tuple[int, int],
    samples: int,
) -> float:
    """Coverage; of several outputs of a case, half are the case's own."""
    truth, held = float(np.dot(LEVELS, of_b) - np.dot(LEVELS, of_a)), 0
    for _ in range(round_count):
        sides = []
        for count, shares in zip(counts, (of_a, of_b), strict=True):
            drawn = rng.choice(LEVELS, (count, samples), p=shares)
            is_shared = rng.random((count, samples)) < 0.5
            sides.append(np.where(is_shared, drawn[:, :1], drawn).ravel())
        cases = [np.repeat(np.arange(count), samples) for count in counts]
        found = measure_unpaired(*sides, cases[0], cases[1] + counts[0])
        held += found.diff_low is not None and found.diff_low <= truth <= (found.diff_high or 0.0)
    return held / round_count


def main(round_count: int) -> None:
    """Print how often each method says better or worse, and how often its interval holds 0; then the weak spots."""
    rng = np.random.default_rng(1)
    print(f"{'world':26}{'n':>5}{'t better':>10}{'t worse':>9}{'better':>8}{'worse':>7}{'covered':>9}")
    for n in SIZES:
        for name, found in worlds(rng, round_count, n):
            means = measure_means(found)
            with np.errstate(divide="ignore", invalid="ignore"):
                of_t = 2.0 * stdtr(means.df, -np.abs(means.mean) / means.standard_error)
            own = measure_difference(means, count_moved(found))
            rates = [(p <= ALPHA) & (sign * means.mean > 1e-12) for p in (of_t, own.p) for sign in (1, -1)] + [
                (own.low <= 1e-12) & (own.high >= -1e-12)
            ]
            shown = [f"{100 * rate.mean():.1f}" for rate in rates]
            print(f"{name:26}{n:>5}{shown[0]:>10}{shown[1]:>9}{shown[2]:>8}{shown[3]:>7}{shown[4]:>9}")


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    main(rounds)
    search_slices(rounds)
    compare_different_cases(rounds)
    follow_checkpoints(rounds)
