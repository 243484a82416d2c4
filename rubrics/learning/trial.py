"""Trial of a drafted criterion: its figures over outputs, and the rules by which it is dropped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.comparison import measure_unpaired
from gradebook.rubrics.text.wording import counted

MOST_UNSCORED = 0.2  # largest share of unscored outputs
LEAST_SELF_AGREEMENT = 0.8  # least share of outputs with the same level twice
ENOUGH = 15  # with so many good and bad outputs, a criterion is dropped if its interval contains 0
CHECK_MERIT = 0.05  # a check may separate less than an equal judge by this difference
REPEATING = 0.9  # correlation of the scores of two criteria that measure the same


@dataclass(frozen=True, slots=True)
class Tried:
    """Scores of one criterion over the outputs of a trial.

    scores: (output,), in [0, 1], NaN where unscored. again: scores of a second request; NaN if there was none.
    is_bad: (output,), whether the output failed. cases: (output,).
    """

    scores: Floats
    again: Floats
    is_bad: np.ndarray
    cases: np.ndarray


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a criterion in a trial. difference: mean of the good outputs minus mean of the bad outputs."""

    output_count: int
    scored_count: int
    level_count: int
    good_count: int
    bad_count: int
    twice_count: int
    same_count: int
    good_mean: float | None = None
    bad_mean: float | None = None
    difference: float | None = None
    low: float | None = None  # lower end of the difference's 95% interval; None with too few cases
    high: float | None = None


def measure_trial(tried: Tried) -> Figures:
    """Figures of one criterion."""
    is_scored = ~np.isnan(tried.scores)
    good, bad = is_scored & ~tried.is_bad, is_scored & tried.is_bad
    twice = is_scored & ~np.isnan(tried.again)
    figures = Figures(
        output_count=tried.scores.size,
        scored_count=int(is_scored.sum()),
        level_count=len({*tried.scores[is_scored].tolist()}),
        good_count=int(good.sum()),
        bad_count=int(bad.sum()),
        twice_count=int(twice.sum()),
        same_count=int((tried.scores == tried.again)[twice].sum()),
    )
    if not (good.any() and bad.any()):
        return figures
    pair = measure_unpaired(tried.scores[bad], tried.scores[good], tried.cases[bad], tried.cases[good])
    return replace(
        figures,
        good_mean=pair.mean_b,
        bad_mean=pair.mean_a,
        difference=pair.mean_diff,
        low=pair.diff_low,
        high=pair.diff_high,
    )


def drop_reason(figures: Figures, *, is_gate: bool = False) -> str | None:
    """Why a criterion is dropped; None if it is kept.

    A gate need not separate good from bad outputs, as its failures are rare. A gate by a check need not even vary: the
    check failed the outputs that it was drafted from.
    """
    unscored_count = figures.output_count - figures.scored_count
    if unscored_count > MOST_UNSCORED * figures.output_count:
        return f"no verdict on {unscored_count} of {counted(figures.output_count, 'output')}"
    if figures.twice_count and figures.same_count < LEAST_SELF_AGREEMENT * figures.twice_count:
        return (
            f"the judge disagrees with itself: the same level twice on {figures.same_count} of {figures.twice_count} "
            f"outputs, expected {LEAST_SELF_AGREEMENT:.0%}"
        )
    if is_gate and (figures.level_count > 1 or not figures.twice_count):
        return None
    return _no_separation(figures)


def _no_separation(figures: Figures) -> str | None:
    if figures.level_count < 2:
        return f"does not vary: the same level on all {counted(figures.scored_count, 'output')}"
    if figures.difference is None or figures.difference <= 0:
        return f"does not separate: {separation(figures)}"
    if min(figures.good_count, figures.bad_count) >= ENOUGH and not is_shown(figures):
        return f"not shown to separate: {separation(figures)}"
    return None


def is_shown(figures: Figures) -> bool:
    """Whether good outputs score higher beyond chance, by the 95% interval."""
    return figures.low is not None and figures.low > 0


def separation(figures: Figures) -> str:
    """Clause on the means of good and bad outputs, and their difference with its interval."""
    if figures.difference is None:
        return f"{counted(figures.good_count, 'good output')}, {counted(figures.bad_count, 'bad one')}"
    interval = "no interval" if figures.low is None else f"{figures.low:.2f} to {figures.high:.2f}"
    return (
        f"good {figures.good_mean:.2f} ({figures.good_count}), bad {figures.bad_mean:.2f} ({figures.bad_count}), "
        f"difference {figures.difference:.2f} ({interval})"
    )


def find_repeats(tried: Mapping[str, Tried], figures: Mapping[str, Figures]) -> dict[str, tuple[str, float]]:
    """Criteria with redundant scores: the one that separates less -> (the other, their correlation)."""
    repeats: dict[str, tuple[str, float]] = {}
    for one, other in combinations(tried, 2):
        is_scored = ~np.isnan(tried[one].scores) & ~np.isnan(tried[other].scores)
        scores = tried[one].scores[is_scored], tried[other].scores[is_scored]
        if one in repeats or other in repeats or any(column.size < 3 or np.ptp(column) == 0 for column in scores):
            continue
        correlation = float(np.corrcoef(*scores)[0, 1])
        if correlation >= REPEATING:
            weaker, stronger = sorted((one, other), key=lambda name: _merit(figures[name]))
            repeats[weaker] = (stronger, correlation)
    return repeats


def _merit(figures: Figures) -> float:
    """Difference of good and bad outputs; a check gets a small bonus, as it costs nothing."""
    return (figures.difference or 0.0) + (0 if figures.twice_count else CHECK_MERIT)


def weights_of(figures: Mapping[str, Figures]) -> dict[str, float] | None:
    """Weights by the difference of good and bad outputs, in steps of 0.05.

    None, which means equal weights, if the intervals of the largest and the smallest difference overlap, or a criterion
    has no interval.
    """
    measured = [
        figure
        for figure in figures.values()
        if figure.low is not None and figure.high is not None and figure.difference
    ]
    if len(measured) < max(2, len(figures)):
        return None
    ranked = sorted(measured, key=lambda figure: figure.difference or 0.0)
    if (ranked[0].high or 0.0) >= (ranked[-1].low or 0.0):
        return None
    return {name: max(0.05, round(20 * (figure.difference or 0.0)) / 20) for name, figure in figures.items()}


def separates(scores: Sequence[float], is_cited: Sequence[bool]) -> tuple[int, int, bool]:
    """(failed cited outputs, failed good outputs, whether the check separates them).

    scores: of cited and good outputs, NaN where undecided. A check that separates fails half of the cited outputs and
    at most a fifth of the good outputs, and fails the cited ones more often.
    """
    values, cited = np.asarray(scores, np.float64), np.asarray(is_cited, np.bool_)
    fails = values < 1
    caught, alarms = int(fails[cited].sum()), int(fails[~cited].sum())
    cited_count, good_count = int(cited.sum()), int((~cited).sum())
    is_separating = (
        2 * caught >= cited_count > 0 and 5 * alarms <= good_count and caught * good_count > alarms * cited_count
    )
    return caught, alarms, is_separating
