"""Improvement of a judge's question, searched and claimed on different cases.

The cases form two halves. Candidates of a half come from its inner cases (search), the best of them is chosen on its
middle cases, and it judges the other half, which neither has seen: nested cross-fitting by clusters of cases. The claim
is over both halves together, so every rated output counts in the paired test.

Agreement is kappa with quadratic weights over the levels' scores (Cohen 1968), of two levels Cohen's kappa; for scores
between levels it is Lin's concordance (1989). Its rise has a jackknife interval over clusters, with Student's quantile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import ceil, sqrt
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import LEVEL, SPREAD_TOLERANCE, Interval, t_quantile
from gradebook.rubrics.statistics.power import detectable_effect, needed_n, power_of
from gradebook.rubrics.statistics.resampling import Jackknife, Parts, Scale

Codes = NDArray[np.int64]
Indices = NDArray[np.intp]
HALVES = (0, 1)
LEAST_OUTPUTS, LEAST_CLUSTERS = 40, 30  # rated; fewer can't show a rise of kappa below .4
# Clusters whose agreement changed: of five that all got better, chance alone makes one in sixteen.
LEAST_CHANGED = 6
MOST_LOST = 0.1  # of kappa on the middle cases, with which a candidate still goes on: they are few
MOST_QUESTIONS = 3  # of candidates, for each rated output
ASSUMED_CORRELATION = 0.5  # of the errors of both questions, before the second is known


@dataclass(frozen=True, slots=True)
class Folds:
    """Folds of rated outputs. halves: (output,), 0 or 1. is_inner: (output,), whether its half's search may use it."""

    halves: Codes
    is_inner: NDArray[np.bool_]

    def inner(self, half: int) -> Indices:
        """Outputs that candidates of a half come from."""
        return np.flatnonzero((self.halves == half) & self.is_inner)

    def middle(self, half: int) -> Indices:
        """Outputs on which the best candidate of a half is chosen."""
        return np.flatnonzero((self.halves == half) & ~self.is_inner)

    def outer(self, half: int) -> Indices:
        """Outputs on which the chosen candidate of a half is measured."""
        return np.flatnonzero(self.halves != half)


def draw_folds(people: Floats, judged: Floats, clusters: Codes, rng: np.random.Generator) -> Folds:
    """Draw folds by clusters, with about the same scores and disagreements in each. All: (output,).

    Clusters are ordered by people's mean score and by the disagreement, and each four in a row go to the four folds.
    """
    counts = np.bincount(clusters)
    means = np.bincount(clusters, weights=people) / counts
    gaps = np.bincount(clusters, weights=np.abs(judged - people)) / counts
    order = np.lexsort((rng.random(counts.size), gaps.round(6), means.round(6)))
    quarters = np.empty(counts.size, dtype=np.int64)
    for start in range(0, counts.size, 4):
        block = order[start : start + 4]
        quarters[block] = rng.permutation(4)[: block.size]
    of_output = quarters[clusters]
    return Folds(of_output // 2, of_output % 2 == 0)


# -------- agreement and its change
def concordance(judged: Floats, people: Floats) -> float:
    """Quadratic kappa of two columns of scores, (output,); NaN where both are constant."""
    return float(_kappas(_moments(judged, people, np.arange(judged.size)).sum(axis=0)))


def _moments(judged: Floats, people: Floats, clusters: Codes) -> Floats:
    """Sums by cluster, (cluster, 6): outputs, scores of both sides, their squares and their product."""
    columns = (np.ones_like(judged), judged, people, np.square(judged), np.square(people), judged * people)
    return np.stack([np.bincount(clusters, weights=column) for column in columns], axis=1)


def _kappas(sums: Floats) -> Floats:
    """1 - mean squared difference / that of independent sides. sums: (..., 6), as of `_moments`."""
    n, judged, people, judged_squares, people_squares, products = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = (judged_squares + people_squares - 2.0 * products) / n
        expected = (judged_squares + people_squares) / n - 2.0 * (judged / n) * (people / n)
        kappas: Floats = np.where(expected > SPREAD_TOLERANCE, 1.0 - observed / expected, np.nan)
    return kappas


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after, over clusters of cases. rise: after - before, with its 95% interval and two-sided p.

    None where it is unknown. changed_count: clusters in which a score changed.
    """

    before: float | None
    after: float | None
    rise: float | None
    low: float | None
    high: float | None
    p: float | None
    standard_error: float | None
    n: int
    cluster_count: int
    changed_count: int


def kappa_change(before: Floats, after: Floats, people: Floats, clusters: Codes, level: float = LEVEL) -> Change:
    """Paired change of the agreement with people. All: (output,); clusters from 0 without gaps."""
    sums = [_moments(judged, people, clusters) for judged in (before, after)]
    values = [float(_kappas(of_side.sum(axis=0))) for of_side in sums]
    parts = [_kappas(of_side.sum(axis=0) - of_side) for of_side in sums]
    is_changed = np.bincount(clusters, weights=np.abs(after - before) > SPREAD_TOLERANCE) > 0
    return _change(values[0], values[1], parts[1] - parts[0], people.size, int(is_changed.sum()), level)


def kappa_interval(judged: Floats, people: Floats, clusters: Codes) -> tuple[float | None, Interval | None]:
    """Kappa with people, and its 95% interval over clusters; None where it is unknown. All: (output,)."""
    sums = _moments(judged, people, clusters)
    kappa, parts = float(_kappas(sums.sum(axis=0))), _kappas(sums.sum(axis=0) - sums)
    if np.isnan(kappa) or not len(sums) > 3:
        return _known(kappa), None
    counts = Parts(np.empty((0, 0)), np.ones(len(sums)), len(sums))
    ends, reason = Jackknife(kappa, counts, parts, Scale.KAPPA).interval()
    return kappa, None if reason is not None else ends


def bias_change(before: Floats, after: Floats, people: Floats, clusters: Codes, level: float = LEVEL) -> Change:
    """Paired change of the absolute mean difference from people, as `kappa_change`."""
    differences = [np.bincount(clusters, weights=judged - people) for judged in (before, after)]
    counts = np.bincount(clusters).astype(np.float64)
    values = [abs(float(sums.sum()) / people.size) for sums in differences]
    left = np.maximum(counts.sum() - counts, 1.0)
    parts = [np.abs(sums.sum() - sums) / left for sums in differences]
    is_changed = np.bincount(clusters, weights=np.abs(after - before) > SPREAD_TOLERANCE) > 0
    return _change(values[0], values[1], parts[1] - parts[0], people.size, int(is_changed.sum()), level)


def _change(before: float, after: float, parts: Floats, n: int, changed_count: int, level: float) -> Change:
    """Jackknife interval of a difference. parts: (cluster,), the difference without each cluster."""
    from scipy.special import stdtr

    g = parts.size
    rise = after - before
    known = None if np.isnan(rise) else rise
    error = sqrt((g - 1) / g * float(np.square(parts - parts.mean()).sum())) if g > 3 else np.nan
    if known is None or not error > SPREAD_TOLERANCE:  # no score changed, or without one case it is undefined
        return Change(_known(before), _known(after), known, None, None, None, None, n, g, changed_count)
    degrees = g - 3.0  # chance-corrected: variances are estimated beside the mean, as in `Jackknife`
    error *= sqrt((g - 1.0) / degrees)
    margin = t_quantile(degrees, level) * error
    p = 2.0 * float(stdtr(degrees, -abs(rise) / error))
    return Change(before, after, rise, rise - margin, rise + margin, p, error, n, g, changed_count)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


@dataclass(frozen=True, slots=True)
class Order:
    """Share of pairs of outputs of one case, which people tell apart, that a judge orders alike; a tie is half."""

    pair_count: int
    before: float | None
    after: float | None


def order_within_cases(before: Floats, after: Floats, people: Floats, cases: Codes) -> Order:
    """Order within cases of both questions. All: (output,)."""
    first, second = np.triu_indices(people.size, 1)
    is_pair = (cases[first] == cases[second]) & (np.abs(people[first] - people[second]) > SPREAD_TOLERANCE)
    first, second = first[is_pair], second[is_pair]
    if not first.size:
        return Order(0, None, None)
    truth = np.sign(people[first] - people[second])
    shares = [float((0.5 + 0.5 * truth * np.sign(judged[first] - judged[second])).mean()) for judged in (before, after)]
    return Order(int(first.size), *shares)


def with_missing_as_worst(judged: Floats, people: Floats) -> Floats:
    """Scores in which an unscored output (NaN) is as far from people's as possible: no candidate gains by silence."""
    return np.where(np.isnan(judged), np.where(people >= 0.5, 0.0, 1.0), judged)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Agreement on n outputs with several raters. people: kappa of two raters; judge: of the judge with one rater.

    people_low: lower end of people's 95% interval over outputs; None if it is unknown.
    """

    n: int
    people: float
    judge: float
    people_low: float | None = None

    @property
    def has_room(self) -> bool:
        """Whether people agree beyond chance, and better with each other than with the judge."""
        return self.people > self.judge and (self.people_low is None or self.people_low > 0.0)


def measure_ceiling(ratings: Sequence[Sequence[float]], judged: Floats) -> Ceiling | None:
    """People's own agreement, which a judge can hardly exceed; None where no kappa is defined.

    ratings: (output,), scores of its raters. judged: (output,). Pairs of raters count in both orders.
    """
    pairs: list[tuple[float, float]] = []
    sides: list[tuple[float, float]] = []
    outputs: list[int] = []
    for output, (scores, judge_score) in enumerate(zip(ratings, judged.tolist(), strict=True)):
        if len(scores) > 1:
            outputs += [output] * (len(scores) * (len(scores) - 1))
            pairs += list(permutations(scores, 2))
            sides += [(judge_score, score) for score in scores]
    if not pairs:
        return None
    first, second = np.array(pairs, dtype=np.float64).T
    judge, rater = np.array(sides, dtype=np.float64).T
    codes = np.unique(outputs, return_inverse=True)[1].ravel()
    people_kappa, ends = kappa_interval(first, second, codes)
    judge_kappa = _known(concordance(judge, rater))
    if people_kappa is None or judge_kappa is None:
        return None
    return Ceiling(int(codes.max()) + 1, people_kappa, judge_kappa, None if ends is None else ends.low)


def or_worst(kappa: float | None) -> float:
    """Kappa for comparisons: an unknown one is the lowest."""
    return -1.0 if kappa is None else kappa


# -------- power
@dataclass(frozen=True, slots=True)
class Power:
    """Power of the claim before it is tested. detectable: rise of kappa that is found four times in five.

    of_twenty: how often a rise of .20 is found. n: rated outputs; cluster_count: their clusters of cases.
    """

    kappa: float | None
    detectable: float | None
    of_twenty: float | None
    n: int
    cluster_count: int


def rise_power(judged: Floats, people: Floats, clusters: Codes) -> Power:
    """Power by the jackknife error of today's kappa; both questions err together by `ASSUMED_CORRELATION`."""
    sums = _moments(judged, people, clusters)
    kappa, parts, g = float(_kappas(sums.sum(axis=0))), _kappas(sums.sum(axis=0) - sums), len(sums)
    if g < 3 or np.isnan(kappa) or np.isnan(parts).any():
        return Power(_known(kappa), None, None, people.size, g)
    sd = sqrt((g - 1) * float(np.square(parts - parts.mean()).sum())) * sqrt(2.0 - 2.0 * ASSUMED_CORRELATION)
    detectable = detectable_effect(sd, g)
    return Power(kappa, _known(detectable), _known(power_of(0.2, sd, g)), people.size, g)


def more_outputs(change: Change) -> int | None:
    """Further rated outputs with which a rise like this one is found four times in five; None where none would do."""
    if change.rise is None or change.standard_error is None or change.rise <= 0.0:
        return None
    wanted = needed_n(change.rise, change.standard_error * sqrt(change.cluster_count), is_paired=True)
    if wanted is None:
        return None
    return max(0, ceil((wanted - change.cluster_count) * change.n / change.cluster_count))


# -------- the search
Candidate = TypeVar("Candidate")
Propose = Callable[[int, Indices], Sequence[Candidate]]  # half, its inner outputs -> candidates, the preferred first
JudgeOutputs = Callable[[Candidate, Indices], Floats]  # scores of these outputs, NaN where unscored


@dataclass(frozen=True, slots=True)
class Tried(Generic[Candidate]):
    """One candidate of a half. screened, chosen_on: kappa on its inner sample and on the middle cases, None if unasked.

    kappa: on the outer half, of the chosen one. reason: why it was dropped; None of the chosen one.
    """

    candidate: Candidate
    half: int
    screened: int | None = None  # verdicts fixed on the inner sample, less those broken
    chosen_on: float | None = None
    kappa: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Search(Generic[Candidate]):
    """Outcome of a search. after: (output,), scores by the candidate of the other half, or today's where there is none.

    chosen: the chosen candidate of each half. question_count: judgments asked for.
    """

    after: Floats
    tried: tuple[Tried[Candidate], ...]
    chosen: tuple[Candidate | None, ...]
    question_count: int

    @property
    def best(self) -> Candidate | None:
        """Chosen candidate with the higher agreement on its outer half."""
        chosen = [tried for tried in self.tried if tried.reason is None]
        return max(chosen, key=lambda tried: or_worst(tried.kappa)).candidate if chosen else None


@dataclass(slots=True)
class _Asked(Generic[Candidate]):
    """Judge that counts its questions, and reads missing scores as the worst."""

    judge: JudgeOutputs[Candidate]
    people: Floats
    count: int = field(default=0)

    def scores(self, candidate: Candidate, indices: Indices) -> Floats:
        self.count += indices.size
        return with_missing_as_worst(self.judge(candidate, indices), self.people[indices])


def search_candidates(
    people: Floats,
    judged: Floats,
    folds: Folds,
    propose: Propose[Candidate],
    judge: JudgeOutputs[Candidate],
    rng: np.random.Generator,
) -> Search[Candidate]:
    """Propose, screen, choose and measure candidates in both halves.

    people, judged: (output,), today's scores. At most `MOST_QUESTIONS` judgments for each output: the screening takes
    what the middle and the outer cases leave.
    """
    asked = _Asked(judge, people)
    proposals = {half: tuple(propose(half, folds.inner(half))) for half in HALVES}
    needed = people.size + sum(len(found) * folds.middle(half).size for half, found in proposals.items())
    screened_count = (MOST_QUESTIONS * people.size - needed) // max(1, sum(map(len, proposals.values())))
    after, tried, chosen = judged.copy(), [], []
    for half in HALVES:
        sample = screening_sample(people, judged, folds.inner(half), screened_count, rng)
        of_half = [_screen(candidate, half, asked, people, judged, sample) for candidate in proposals[half]]
        of_half, best = _choose(of_half, asked, people, judged, folds.middle(half))
        if best is not None:
            outer = folds.outer(half)
            after[outer] = asked.scores(best.candidate, outer)
            kappa = _known(concordance(after[outer], people[outer]))
            of_half = [replace(row, kappa=kappa) if row is best else row for row in of_half]
        tried += of_half
        chosen.append(None if best is None else best.candidate)
    return Search(after, tuple(tried), tuple(chosen), asked.count)


def screening_sample(people: Floats, judged: Floats, inner: Indices, count: int, rng: np.random.Generator) -> Indices:
    """Inner outputs to screen candidates on: half with a disagreement, the largest first, half without."""
    if count < 2:
        return inner[:0]
    gaps = np.abs(judged - people)[inner]
    order = inner[np.lexsort((rng.random(inner.size), -gaps))]
    wrong = order[np.abs(judged - people)[order] > SPREAD_TOLERANCE][: count // 2]
    right = rng.permutation(inner[gaps <= SPREAD_TOLERANCE])[: count - wrong.size]
    return np.concatenate([wrong, right])


def _screen(
    candidate: Candidate, half: int, asked: _Asked[Candidate], people: Floats, judged: Floats, sample: Indices
) -> Tried[Candidate]:
    """Drop a candidate that breaks more than it fixes; the sample is too small to ask for more."""
    if not sample.size:
        return Tried(candidate, half)
    gaps = [np.abs(scores - people[sample]) for scores in (judged[sample], asked.scores(candidate, sample))]
    gained = int((gaps[1] < gaps[0] - SPREAD_TOLERANCE).sum() - (gaps[1] > gaps[0] + SPREAD_TOLERANCE).sum())
    return Tried(candidate, half, gained, reason=None if gained >= 0 else "breaks more than it fixes")


def _choose(
    of_half: Sequence[Tried[Candidate]], asked: _Asked[Candidate], people: Floats, judged: Floats, middle: Indices
) -> tuple[list[Tried[Candidate]], Tried[Candidate] | None]:
    """Measure the screened candidates on the middle cases; the best goes on, unless today's agrees by
    `MOST_LOST` more.
    """
    rows, best = [], None
    today = concordance(judged[middle], people[middle])
    for screened in of_half:
        row = screened
        if screened.reason is None:
            kappa = concordance(asked.scores(screened.candidate, middle), people[middle])
            row = replace(screened, chosen_on=_known(kappa))
            if row.chosen_on is not None and (best is None or row.chosen_on > or_worst(best.chosen_on)):
                best = row
        rows.append(row)
    if best is not None and or_worst(best.chosen_on) < today - MOST_LOST:
        best = None
    reason = "agrees less than another candidate" if best else "agrees less than today's question"
    return [row if row.reason or row is best else replace(row, reason=reason) for row in rows], best
