"""Error rates of comparisons, means, interim analyses, weak spots and the best checkpoint, before and after.

python bench/inference.py [PART ...] [--rounds 10000] [--sizes 20 50]

Parts: differences, search, power, means, passes, unpaired, stop, slices, checkpoints, copies, uneven, together; by
default all.
"Before" is gradebook of November 2026: t with Hall's transformation, and the rule of three where under 5 cases moved;
of passes t; of different cases Welch's t; of means the effective sample size alone. A cell has the coverage in percent,
and in brackets the truth below and above the interval. Weak spots: 300 outputs with 6 metadata keys of 5 values and 5
criteria. "Interval": the former rule, a slice whose 95% interval lies below the mean of the rest.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.calibration import measure_influences
from gradebook.rubrics.statistics.comparison import UnpairedDifference, measure_pairs
from gradebook.rubrics.statistics.intervals import DIFFERENCES as DIFFERENCE_BOUNDS
from gradebook.rubrics.statistics.intervals import Means, measure_means
from gradebook.rubrics.statistics.means import (
    count_moved,
    measure_difference,
    measure_scores,
    score_ends,
    skewness_of,
    worth_ends,
)
from gradebook.rubrics.statistics.shrinkage import shrink_differences
from gradebook.rubrics.statistics.significance import adjust_for_many, luck_of_best, shortfall_test
from gradebook.rubrics.statistics.stopping import read_stop_rule
from gradebook.rubrics.statistics.strata import Strata, measure_strata

SIZES = (20, 50, 100, 200, 1_000)
ALPHA = 0.05
LEVELS, SHARES = [0.0, 0.5, 1.0], [0.05, 0.15, 0.8]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
Ends = tuple[Floats, Floats]


def choice(values: Sequence[float], shares: Sequence[float]) -> Draw:
    """Draw of independent values."""
    return lambda rng, shape: rng.choice(values, shape, p=shares)


def jitter(spread: float, share: float, loss: float, rise: float = 0.0) -> Draw:
    """Draw of differences near `rise`, of which a share is `-loss`."""
    return lambda rng, shape: np.clip(
        np.where(rng.random(shape) < share, -loss, rng.normal(rise, spread, shape)), -1.0, 1.0
    )


def criteria(count: int, flip: float, crash: float) -> Draw:
    """Draw of differences of means of 0/1 criteria that a judge flips; the outputs of B crash in a share of cases."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        of_a, of_b = (rng.binomial(count, 1.0 - flip, shape) / count for _ in "ab")
        return np.where(rng.random(shape) < crash, 0.0, of_b) - of_a

    return draw


def levels(shares: Sequence[float]) -> Draw:
    """Draw of differences of two scores of levels."""
    return lambda rng, shape: rng.choice(LEVELS, shape, p=shares) - rng.choice(LEVELS, shape, p=shares)


def of_scores(draw: Draw) -> Draw:
    """Draw of differences of two scores."""
    return lambda rng, shape: draw(rng, shape) - draw(rng, shape)


DIFFERENCES: dict[str, tuple[float, Draw]] = {  # true mean, and draw
    "normal, sd 0.05": (0.0, jitter(0.05, 0, 0)),
    "normal, sd 0.1": (0.0, jitter(0.1, 0, 0)),
    "normal, sd 0.3": (0.0, jitter(0.3, 0, 0)),
    "levels .05/.15/.80": (0.0, levels(SHARES)),
    "levels .97/.02/.01": (0.0, levels([0.97, 0.02, 0.01])),
    "10% moved by 0.5": (0.0, choice([-0.5, 0, 0.5], [0.05, 0.9, 0.05])),
    "3% moved by 1": (0.0, choice([-1, 0, 1], [0.015, 0.97, 0.015])),
    "+0.1 in 90%, -0.9 in 10%": (0.0, choice([0.1, -0.9], [0.9, 0.1])),
    "+0.05 in 40%, -1 in 2%": (0.0, choice([0.05, 0, -1], [0.4, 0.58, 0.02])),
    "+0.1 in 45%, -0.3 in 15%": (0.0, choice([0.1, 0, -0.3], [0.45, 0.4, 0.15])),
    "-0.8 in 3%, else +-0.02": (-0.024, jitter(0.02, 0.03, 0.8)),
    "-0.8 in 2%, else +0.016+-0.02": (0.0, jitter(0.02, 0.02, 0.8, 0.016 / 0.98)),
    "ten criteria, 2% flips, 3% crash": (-0.03 * 0.98, criteria(10, 0.02, 0.03)),
    "90% tied, +0.1 in 9%, -0.9 in 1%": (0.0, choice([0.1, 0, -0.9], [0.09, 0.9, 0.01])),
    "99% tied, +0.1 in .9%, -0.9 in .1%": (0.0, choice([0.1, 0, -0.9], [0.009, 0.99, 0.001])),
    "-1 in 2%": (-0.02, choice([0, -1], [0.98, 0.02])),
    "-1 in 5%": (-0.05, choice([0, -1], [0.95, 0.05])),
    # unkinder ones
    "-1 in 3.6%, else +-0.005": (-0.036, jitter(0.005, 0.036, 1.0)),
    "-1 in 2%, else +-0.1": (-0.02, jitter(0.1, 0.02, 1.0)),
    "-1 in 1%, else +-0.3": (-0.01, jitter(0.3, 0.01, 1.0)),
    "-0.3 in 5%, else +-0.05": (-0.015, jitter(0.05, 0.05, 0.3)),
    "-1 in 0.5%, else +0.005+-0.01": (-0.005 + 0.995 * 0.005, jitter(0.01, 0.005, 1.0, 0.005)),
    "+1 in 2%, -1 in 6%": (-0.04, choice([1, 0, -1], [0.02, 0.92, 0.06])),
    "+1 in 8%, -1 in 1%": (0.07, choice([1, 0, -1], [0.08, 0.91, 0.01])),
    "-0.1 x exponential": (-0.1, lambda rng, shape: -0.1 * np.minimum(rng.exponential(size=shape), 10.0)),
    "beta(40, 1) each, B 0 in 2%": (
        -0.02 * 40 / 41,
        lambda rng, shape: rng.beta(40, 1, shape) * (rng.random(shape) >= 0.02) - rng.beta(40, 1, shape),
    ),
    "zero-inflated similarity": (
        0.0,
        of_scores(lambda rng, shape: np.where(rng.random(shape) < 0.6, 0.0, rng.beta(2, 3, shape))),
    ),
}
PASSES = {
    f"-1 in {margin:.0%}{f', +1 in {gain:.0%}' if gain else ''}": (
        gain - margin,
        choice([0, -1, 1], [1 - margin - gain, margin, gain]),
    )
    for margin, gain in ((0.02, 0.0), (0.05, 0.0), (0.1, 0.0), (0.04, 0.02), (0.08, 0.02), (0.15, 0.08))
}
MEANS: dict[str, tuple[float, Draw]] = {
    **{
        f"0.95+-0.015, 0.15 in {share:.0%}": (
            0.95 - 0.8 * share,
            lambda rng, shape, share=share: 0.95 + jitter(0.015, share, 0.8)(rng, shape),
        )
        for share in (0.01, 0.02, 0.05)
    },
    "beta(40, 1), 0 in 2%": (
        0.98 * 40 / 41,
        lambda rng, shape: rng.beta(40, 1, shape) * (rng.random(shape) >= 0.02),
    ),
    "six criteria at .93, 4% crash": (
        0.96 * 0.93,
        lambda rng, shape: rng.binomial(6, 0.93, shape) / 6 * (rng.random(shape) >= 0.04),
    ),
    "levels .05/.15/.80": (0.875, choice(LEVELS, SHARES)),
    "levels 0/.05/.95": (0.975, choice(LEVELS, [0, 0.05, 0.95])),
    "levels .97/.02/.01": (0.02, choice(LEVELS, [0.97, 0.02, 0.01])),
    "levels in even shares": (0.5, choice(LEVELS, [1 / 3] * 3)),
    "0/1 at .97": (0.97, choice([0, 1], [0.03, 0.97])),
    "beta(8, 2)": (0.8, lambda rng, shape: rng.beta(8, 2, shape)),
    "zero-inflated similarity": (
        0.4 * 0.4,
        lambda rng, shape: np.where(rng.random(shape) < 0.6, 0.0, rng.beta(2, 3, shape)),
    ),
}


def difference_before(found: Floats, alpha: float = ALPHA) -> Ends:
    """Ends of a mean difference in November 2026: t, Hall's transformation, and a guard for under 5 moved cases."""
    means, skewness = measure_means(found), skewness_of(found)
    critical = stdtrit(means.df, 1.0 - alpha / 2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        a = np.where(np.abs(skewness) < 1e-6 * np.sqrt(means.n), np.nan, skewness / np.sqrt(means.n))
        least, most = (3.0 / a * (np.cbrt(1.0 + a * (side - a / 6.0)) - 1.0) for side in (-critical, critical))
    margins = [
        np.fmax(critical, np.minimum(each, 2.0 * critical)) * np.nan_to_num(means.standard_error)
        for each in (most, -least)
    ]
    share = 1.0 - alpha ** (1.0 / means.n)
    is_thin = [means.is_constant | ((sign * found > 1e-9).sum(axis=1) < 5) for sign in (-1, 1)]
    unseen = share * (means.mean + 1.0), share * (1.0 - means.mean)
    down, up = (np.where(thin, np.maximum(m, u), m) for thin, m, u in zip(is_thin, margins, unseen, strict=True))
    return means.mean - down, means.mean + up


def t_ends(found: Floats) -> Ends:
    """Ends of `mean_interval`, by which passes had theirs."""
    means = measure_means(found)
    share = 1.0 - ALPHA ** (1.0 / means.n)
    margin = stdtrit(means.df, 1.0 - ALPHA / 2.0) * means.standard_error
    down, up = (np.where(means.is_constant, share * (1.0 + sign * means.mean), margin) for sign in (1, -1))
    return means.mean - down, means.mean + up


def difference_now(found: Floats) -> Ends:
    """Ends of a mean difference, of passes too."""
    own = measure_difference(measure_means(found), count_moved(found))
    return own.low, own.high


def mean_before(found: Floats) -> Ends:
    """Ends of a mean of scores by its effective sample size."""
    return worth_ends(_clipped(measure_means(found)))


def mean_now(found: Floats) -> Ends:
    """Ends of a mean of scores."""
    return score_ends(_clipped(measure_means(found)), skewness_of(found))


def _clipped(means: Means) -> Means:
    return Means(means.n, means.unit_count, np.clip(means.mean, 0, 1), means.sd, means.standard_error, means.df)


def cover(
    worlds: dict[str, tuple[float, Draw]],
    before: Callable[[Floats], Ends],
    now: Callable[[Floats], Ends],
    round_count: int,
    sizes: Sequence[int],
) -> None:
    """Print coverage, and in brackets the shares of rounds with the truth below and above the interval.

    The truth below the interval: so often a gate at a margin as large as the true difference passes.
    """
    rng = np.random.default_rng(1)
    print(f"\n{'world':36}" + "".join(f"{f'{n} before':>20}{'now':>20}" for n in sizes))
    for name, (truth, draw) in worlds.items():
        cells = []
        for n in sizes:
            misses = np.zeros((2, 2))
            for count in _parts_of(round_count, n):
                found = np.clip(draw(rng, (count, n)), -1.0, 1.0)
                for place, ends in enumerate((before, now)):
                    low, high = ends(found)
                    misses[place] += (low > truth + 1e-9).sum(), (high < truth - 1e-9).sum()
            for low, high in 100 * misses / round_count:
                cells.append(f"{100 - low - high:.1f} ({low:.1f}/{high:.1f})")
        print(f"{name:36}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


LOST = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.15)
SEARCHED: dict[str, tuple[float, Draw]] = {
    **{
        f"-{loss:g} in {share:.1%}, else +-{spread:g}": (-share * loss, jitter(spread, share, loss))
        for spread in (0.005, 0.02, 0.05, 0.1, 0.2, 0.3)
        for share in LOST
        for loss in (0.3, 0.8, 1.0)
    },
    **{
        f"+1 in {gain:.1%}, -1 in {loss:.1%}": (gain - loss, choice([1, 0, -1], [gain, 1 - gain - loss, loss]))
        for gain in (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15)
        for loss in LOST
    },
}


def search_worlds(round_count: int) -> None:
    """Print, for each number of pairs, the three worlds in which the lower end is most often above the true mean."""
    rng = np.random.default_rng(8)
    for n in (20, 50, 100, 200, 400):
        missed = []
        for name, (truth, draw) in SEARCHED.items():
            low, _ = difference_now(draw(rng, (round_count, n)))
            missed.append((100 * float((low > truth + 1e-9).mean()), name))
        worst = "; ".join(f"{share:.1f} {name}" for share, name in sorted(missed, reverse=True)[:3])
        print(f"{n} pairs, {len(missed)} worlds: {worst}", flush=True)


POWER: dict[str, Callable[[int], Draw]] = {
    **{f"normal, sd {sd:g}": lambda n, sd=sd: jitter(sd, 0, 0, 2.8 * sd / np.sqrt(n)) for sd in (0.05, 0.1, 0.2, 0.3)},
    **{
        f"0/1, +1 in {gain:.0%}, -1 in {loss:.0%}": lambda n, gain=gain, loss=loss: choice(
            [1, 0, -1], [gain, 1 - gain - loss, loss]
        )
        for gain, loss in ((0.08, 0.02), (0.1, 0.05), (0.2, 0.1), (0.3, 0.2))
    },
}


def find_differences(round_count: int, sizes: Sequence[int]) -> None:
    """Print how often a true gain is found; of normal differences, one that t finds four times in five."""
    rng = np.random.default_rng(6)
    print(f"\n{'power':36}" + "".join(f"{f'{n} before':>16}{'now':>8}" for n in sizes))
    for name, of_size in POWER.items():
        cells = []
        for n in sizes:
            hits = np.zeros(2)
            for count in _parts_of(round_count, n):
                found = of_size(n)(rng, (count, n))
                hits += [(ends(found)[0] > 0).sum() for ends in (difference_before, difference_now)]
            cells.append("{:>16.1f}{:>8.1f}".format(*(100 * hits / round_count)))
        print(f"{name:36}" + "".join(cells), flush=True)


STOPPED = ("-0.8 in 2%, else +0.016+-0.02", "normal, sd 0.3", "+1 in 8%, -1 in 1%")


def stop_early(round_count: int) -> None:
    """Print how often interim analyses of 200 cases decide for the side on which the true mean is not."""
    print(f"\n{'--stop, 200 cases: decided falsely':36}{'rule':>16}{'before':>8}{'now':>8}")
    for name in STOPPED:
        truth, draw = DIFFERENCES[name]
        found = draw(np.random.default_rng(7), (round_count, 200)) - truth
        for text in ("looks=10", "looks=10,pocock", "always"):
            rule = read_stop_rule(text)
            wrong = np.zeros((2, round_count), bool)
            ends = np.array(rule.ends(200))
            for end, level in zip(ends, rule.levels(ends, 200), strict=True):
                seen = found[:, :end]
                low, high = difference_before(seen, level)
                wrong[0] |= (low > 1e-9) | (high < -1e-9)
                own = measure_difference(measure_means(seen), count_moved(seen), chosen_from=ALPHA / level)
                wrong[1] |= (own.low > 1e-9) | (own.high < -1e-9)
            shares = 100 * wrong.mean(axis=1)
            print(f"{name:36}{text:>16}{shares[0]:>8.1f}{shares[1]:>8.1f}", flush=True)


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
    **{f"0/1 at {rate}": ([1 - rate, 0.0, rate],) * 2 for rate in (0.98, 0.99, 0.995, 0.998)},
}
UNPAIRED_SIZES = ((10, 10), (10, 80), (50, 50), (50, 200), (200, 1_000), (1_000, 200), (200, 5_000))


def compare_different_cases(round_count: int) -> None:
    """Print how often intervals over different cases hold the true difference, by Welch's t and now."""
    print(f"\n{'unpaired: levels on A and B':30}{'cases':>10}{'Welch':>22}{'now':>22}{'now, 3 outputs':>22}")
    rng = np.random.default_rng(5)
    for name, (of_a, of_b) in UNPAIRED.items():
        for counts in UNPAIRED_SIZES:
            rows = [_unpaired_misses(rng, round_count, of_a, of_b, counts, samples) for samples in (1, 3)]
            cells = [*rows[0], rows[1][1]]
            shown = "".join(f"{f'{100 - low - high:.1f} ({low:.1f}/{high:.1f})':>22}" for low, high in cells)
            print(f"{name:30}{counts[0]:>6}/{counts[1]:<5}{shown}", flush=True)


def _unpaired_misses(
    rng: np.random.Generator,
    round_count: int,
    of_a: list[float],
    of_b: list[float],
    counts: tuple[int, int],
    samples: int,
) -> list[tuple[float, float]]:
    """Percent of truths below and above the interval, by Welch and now; half of a case's outputs are alike."""
    truth, misses = float(np.dot(LEVELS, of_b) - np.dot(LEVELS, of_a)), np.zeros((2, 2))
    for _ in range(round_count):
        sides = []
        for count, shares in zip(counts, (of_a, of_b), strict=True):
            drawn = rng.choice(LEVELS, (count, samples), p=shares)
            is_shared = rng.random((count, samples)) < 0.5
            sides.append(np.where(is_shared, drawn[:, :1], drawn).ravel())
        cases = np.repeat(np.arange(counts[0]), samples), counts[0] + np.repeat(np.arange(counts[1]), samples)
        measured = [measure_scores(*side) for side in zip(sides, cases, strict=True)]
        by_case = measure_influences(sides[1], sides[0], cases[1], cases[0])
        found = UnpairedDifference(measured[0], measured[1], by_case, DIFFERENCE_BOUNDS)
        margin = stdtrit(found.df, 1.0 - ALPHA / 2.0) * found.error
        ends = (found.value - margin, found.value + margin), found.ends(ALPHA / 2.0)
        for place, (low, high) in enumerate(ends):
            misses[place] += low > truth + 1e-9, high < truth - 1e-9
    return [tuple(each) for each in 100 * misses / round_count]


UNEVEN: dict[str, Callable[[Floats], Floats]] = {  # outputs of a case by its mean
    "harder cases have more outputs": lambda means: np.where(means < 0.6, 9, 1),
    "1 to 9 outputs by chance": lambda means: np.random.default_rng(11).integers(1, 10, means.size),
}


def weigh_cases(round_count: int) -> None:
    """Print how often intervals hold the mean over cases where these have unlike numbers of outputs."""
    print(f"\n{'uneven outputs':34}{'cases':>6}{'bias, outputs':>15}{'covered':>9}{'bias, cases':>13}{'covered':>9}")
    rng = np.random.default_rng(10)
    for name, sizes_of in UNEVEN.items():
        for count in (20, 50, 200):
            errors, hits = np.zeros(2), np.zeros(2)
            for _ in range(round_count):
                of_case = rng.beta(3, 1.5, count)  # mean 2/3
                sizes = sizes_of(of_case).astype(np.int64)
                cases = np.repeat(np.arange(count), sizes)
                scores = (rng.random(cases.size) < of_case[cases]).astype(np.float64)
                means = np.bincount(cases, scores) / sizes
                strata = Strata(np.zeros(cases.size, np.int64), 1.0 / sizes[cases], float(count))
                before = measure_scores(scores, cases)
                now = measure_strata(scores, strata, cases)
                for place, mean in enumerate((before, now)):
                    of_means = Means(*(np.array([float(getattr(mean, field))]) for field in MEAN_FIELDS))
                    low, high = score_ends(of_means, np.atleast_1d(skewness_of(means[None])))
                    errors[place] += mean.mean - 2 / 3
                    hits[place] += low[0] <= 2 / 3 <= high[0]
            cells = [*np.stack([errors / round_count, 100 * hits / round_count], axis=1).ravel()]
            print(f"{name:34}{count:>6}{cells[0]:>15.3f}{cells[1]:>9.1f}{cells[2]:>13.3f}{cells[3]:>9.1f}", flush=True)


TOGETHER: dict[str, Callable[[np.random.Generator], Floats]] = {  # true differences of eight criteria
    "alike, -0.03": lambda rng: np.full(8, -0.03),
    "normal, sd 0.05": lambda rng: rng.normal(0.0, 0.05, 8),
    "one lost 0.25": lambda rng: np.append(-0.25, np.zeros(7)),
}


def draw_together(round_count: int) -> None:
    """Print coverage and error of differences of criteria by t alone and drawn together, and of the first criterion."""
    print(f"\n{'second opinion':20}{'cases':>6}{'t':>8}{'together':>10}{'first':>8}{'error, t':>10}{'together':>10}")
    for name, truth_of in TOGETHER.items():
        for count in (10, 20, 50):
            rng, held, errors = np.random.default_rng(count), [], []
            for _ in range(round_count):
                truth = truth_of(rng)
                found = truth + rng.normal(0.0, 0.15, (count, 1)) + rng.normal(0.0, 0.25, (count, 8))
                shrunk = shrink_differences(np.clip(found, -1.0, 1.0))
                if shrunk is None:
                    continue
                margin = stdtrit(count - 1.0, 1.0 - ALPHA / 2.0) * found.std(axis=0, ddof=1) / np.sqrt(count)
                is_held = (shrunk.lows <= truth) & (truth <= shrunk.highs)
                held.append([(np.abs(shrunk.plain - truth) <= margin).mean(), is_held.mean(), is_held[0]])
                errors.append([np.square(each - truth).mean() for each in (shrunk.plain, shrunk.values)])
            cells = 100 * np.mean(held, axis=0), np.sqrt(np.mean(errors, axis=0))
            print(f"{name:20}{count:>6}" + "{:>8.1f}{:>10.1f}{:>8.1f}".format(*cells[0]), end="")
            print("{:>10.3f}{:>10.3f}".format(*cells[1]), flush=True)


MEAN_FIELDS = ("n", "unit_count", "mean", "sd", "standard_error", "df")
FAMILIES = {"copies": ((2, 1.0), (3, 1.0)), "families of 5": ((5, 0.1), (5, 0.3), (5, 0.6))}


def count_copies(round_count: int) -> None:
    """Print how often p is at most 0.05 of equal models if cases are copies or variants of 100 (20) questions."""
    print(f"\n{'cases that belong together':30}{'correlation':>12}{'as own cases':>14}{'as clusters':>13}")
    rng = np.random.default_rng(9)
    for name, sizes in FAMILIES.items():
        for size, correlation in sizes:
            count = 100 if correlation == 1.0 else 20
            clusters, hits = np.repeat(np.arange(count), size), np.zeros(2)
            for _ in range(round_count):
                shared = np.repeat(rng.standard_normal(count), size)
                own = rng.standard_normal(shared.size)
                found = 0.3 * (np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own)
                found = np.clip(found, -1.0, 1.0)
                for place, codes in enumerate((np.arange(found.size), clusters)):
                    hits[place] += (measure_pairs(np.zeros(found.size), found, codes).p or 1.0) <= ALPHA
            shares = 100 * hits / round_count
            print(f"{f'{name} ({size})':30}{correlation:>12}{shares[0]:>14.1f}{shares[1]:>13.1f}", flush=True)


def main() -> None:
    """Print the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    sizes, rounds = (known := parser.parse_known_args()[0]).sizes, known.rounds
    parts: dict[str, Callable[[], None]] = {
        "differences": lambda: cover(DIFFERENCES, difference_before, difference_now, rounds, sizes),
        "search": lambda: search_worlds(rounds),
        "power": lambda: find_differences(rounds, sizes),
        "means": lambda: cover(MEANS, mean_before, mean_now, rounds, sizes),
        "passes": lambda: cover(PASSES, t_ends, difference_now, rounds, (30, 35, 70, 160, *sizes)),
        "unpaired": lambda: compare_different_cases(rounds),
        "stop": lambda: stop_early(rounds),
        "slices": lambda: search_slices(rounds),
        "checkpoints": lambda: follow_checkpoints(rounds),
        "copies": lambda: count_copies(rounds),
        "uneven": lambda: weigh_cases(rounds),
        "together": lambda: draw_together(rounds),
    }
    parser.add_argument("part", nargs="*", choices=[*parts, []], default=[])
    for part in parser.parse_args().part or parts:
        parts[part]()


if __name__ == "__main__":
    main()
