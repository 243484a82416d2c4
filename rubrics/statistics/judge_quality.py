"""Quality of a judge: order of outputs, recall of failures, its probabilities and their temperature, drift.

How far a judge's passes and failures can be trusted, by people's: recall of failures, and its probabilities.
Where most outputs pass, a judge that always says "pass" agrees with people too: the share of their failures that
it finds tells the two apart. Brier score and log loss are of the probability of passing (Brier 1950; Good 1952).

Agreement of a judge's scores with people on the order of outputs and models, to choose a judge by.
Kendall's tau has no good answer to ties, which judges of few levels have many of. Pairwise accuracy counts a pair as
right if both order it alike or both call it a tie, and lets the judge call differences up to a margin a tie (Deutsch,
Foster and Freitag 2023). The margin is fitted on one half of the cases and used on the other, so that a judge gains
nothing from having many scores to choose it from.

Temperature of a judge's probabilities, fitted to people's levels (Guo et al. 2017, section 4.2).
Probabilities become p^(1 / temperature), scaled to sum 1: above 1 they are less sure, below 1 surer. The most probable
level stays. The gain is measured on cases that did not fit the temperature.

Evidence that a judge changed: a betting e-process over fixed outputs that it judges again and again.
Under the hypothesis that nothing changed, the replies on one anchor can be exchanged. A new score minus the mean of all
scores of its anchor, itself included, is then 0 on average, whatever the anchor's own mean is, which may be unknown.
Scores that chose the anchor must stay out: a level that was chosen because it is rare is often a slip of the judge.

The product of 1 + bet * contrast multiplies the wealth of a gambler who bets against the hypothesis (Waudby-Smith and
Ramdas 2024, "Estimating means of bounded random variables by betting"). A mixture over the night on which the change
began keeps the evidence of quiet nights from hiding a late change (Shin, Ramdas and Rinaldo 2024, "E-detectors").
The probability of wealth above 1/alpha, ever, is at most alpha for a martingale; bench/drift.py measures it here.
"""

from dataclasses import dataclass, field
from math import isnan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.intervals import mean_interval, measure_mean, rate_interval

BIN_COUNT = 5  # of the reliability curve, of equal width
LEAST_PROBABILITY = 1e-6  # in the log loss: a certain error costs 13.8, and not infinitely much


@dataclass(frozen=True, slots=True)
class Share:
    """Share of n outputs, 0..1, with its 95% interval over cases; None without outputs; no interval of one case."""

    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Outputs with a probability of passing of low to high: their mean probability, and the share that people pass."""

    low: float
    high: float
    mean: float
    passed: Share


@dataclass(frozen=True, slots=True)
class JudgeTrust:
    """Judge against people on n outputs of one criterion.

    found: of the outputs that people fail, the share that the judge fails. agreement: same side; always_pass: that of a
    judge that passes everything. brier, log_loss: of the probability of passing, None without probabilities;
    base_brier: of people's own share of passes as the probability of every output.
    """

    n: int
    failure_count: int
    found: Share
    agreement: Share
    always_pass: float
    brier: float | None = None
    base_brier: float | None = None
    log_loss: float | None = None
    reliability: tuple[ReliabilityBin, ...] = ()

    @property
    def is_no_better_than_passing(self) -> bool:
        """Whether a judge that passes everything would agree with people as well."""
        return self.agreement.value is not None and self.agreement.value <= self.always_pass


def judge_trust(
    is_passed: NDArray[np.bool_], is_judged_passed: NDArray[np.bool_], probabilities: Floats, cases: ArrayLike
) -> JudgeTrust:
    """Compare a judge's passes with people's. All: (output,), one at least.

    probabilities: of passing, NaN where the judge gave none. cases: outputs of one case count as one cluster.
    """
    codes = np.asarray(cases)
    is_failed = ~is_passed
    base = JudgeTrust(
        is_passed.size,
        int(is_failed.sum()),
        _share(~is_judged_passed[is_failed], codes[is_failed]),
        _share(is_passed == is_judged_passed, codes),
        float(is_passed.mean()),
    )
    is_known = ~np.isnan(probabilities)
    if not is_known.any():
        return base
    p, y, of_case = probabilities[is_known], is_passed[is_known].astype(np.float64), codes[is_known]
    clipped = np.clip(p, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return JudgeTrust(
        base.n,
        base.failure_count,
        base.found,
        base.agreement,
        base.always_pass,
        float(np.square(p - y).mean()),
        float(np.square(y.mean() - y).mean()),
        float(-(y * np.log(clipped) + (1 - y) * np.log(1 - clipped)).mean()),
        _reliability(p, y, of_case),
    )


def _reliability(p: Floats, y: Floats, cases: NDArray[np.int64]) -> tuple[ReliabilityBin, ...]:
    bin_indices = np.minimum((p * BIN_COUNT).astype(np.int64), BIN_COUNT - 1)
    bins = []
    for index in np.unique(bin_indices).tolist():
        chosen = bin_indices == index
        passed = _share(y[chosen] > 0, cases[chosen])
        bins.append(ReliabilityBin(index / BIN_COUNT, (index + 1) / BIN_COUNT, float(p[chosen].mean()), passed))
    return tuple(bins)


def _share(is_met: NDArray[np.bool_], cases: NDArray[np.int64]) -> Share:
    if not is_met.size:
        return Share(0)
    interval = rate_interval(is_met, clusters=cases)
    low, high = (None if isnan(end) else end for end in (interval.low, interval.high))
    return Share(is_met.size, float(is_met.mean()), low, high)


EQUAL = 1e-9  # of scores: the rounding error of a float sum
MOST_OUTPUTS = 2_000  # of each half: more are thinned out evenly, as pairs grow with the square


@dataclass(frozen=True, slots=True)
class PairwiseAccuracy:
    """Share of pairs that the judge orders as people do, 0..1; None without pairs. tie_margin: mean of both halves."""

    value: float | None
    tie_margin: float | None
    pair_count: int


def pairwise_accuracy(
    judged: Floats, rated: Floats, cases: NDArray[np.int64], rng: np.random.Generator
) -> PairwiseAccuracy:
    """Accuracy over pairs of outputs, with ties calibrated by cross-fitting over two random halves of the cases.

    judged, rated, cases: (output,), no NaN; cases are numbers from 0.
    """
    sides = rng.permutation(int(cases.max(initial=-1)) + 1)[cases] % 2
    halves = [np.flatnonzero(sides == side) for side in (0, 1)]
    pairs = [_pairs(judged[half], rated[half]) for half in halves]
    if not all(differences.size for differences, _ in pairs):
        return PairwiseAccuracy(None, None, 0)
    margins = [_best_margin(*pair) for pair in pairs]
    right = [_right(*pairs[side], margins[1 - side]) for side in (0, 1)]
    count = sum(is_right.size for is_right in right)
    return PairwiseAccuracy(sum(int(is_right.sum()) for is_right in right) / count, sum(margins) / 2.0, count)


def ordered_alike(judged: Floats, rated: Floats) -> tuple[int, int]:
    """Numbers of pairs of models that both means order alike, and of all pairs that people's means tell apart.

    Both (model,).
    """
    differences, truths = _pairs(judged, rated)
    is_decided = np.abs(truths) > EQUAL
    return int((is_decided & (np.sign(truths) == _signs(differences, EQUAL))).sum()), int(is_decided.sum())


def _pairs(judged: Floats, rated: Floats) -> tuple[Floats, Floats]:
    step = -(-judged.size // MOST_OUTPUTS) or 1
    first, second = np.triu_indices(judged[::step].size, 1)
    return tuple(scores[::step][second] - scores[::step][first] for scores in (judged, rated))  # type: ignore[return-value]


def _signs(differences: Floats, margin: float) -> Floats:
    return np.where(np.abs(differences) <= margin, 0.0, np.sign(differences))


def _right(differences: Floats, truths: Floats, margin: float) -> NDArray[np.bool_]:
    is_right: NDArray[np.bool_] = _signs(differences, margin) == _signs(truths, EQUAL)
    return is_right


def _best_margin(differences: Floats, truths: Floats) -> float:
    """Margin with the most pairs right: `EQUAL`, or one of the judge's own differences."""
    sizes, order = np.abs(differences), np.argsort(np.abs(differences), kind="stable")
    is_tie = np.abs(truths) <= EQUAL
    # A pair inside the margin is right if it is a tie, outside it if the order is right.
    gain = is_tie.astype(np.int64) - (np.sign(differences) == _signs(truths, EQUAL)).astype(np.int64)
    gain[sizes <= EQUAL] = 0
    totals, ascending = np.cumsum(gain[order]), sizes[order]
    is_last = np.append(np.diff(ascending) > EQUAL, True)
    candidates = np.flatnonzero(is_last)
    best = candidates[totals[candidates].argmax()]
    return float(ascending[best]) + EQUAL if totals[best] > 0 else EQUAL


LEAST_RATED = 100
FOLDS = 10
ENDS = (0.1, 10.0)  # of a temperature
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recalibrated:
    """Temperature fitted on n rated outputs, and losses of the level that people gave.

    log_loss, brier: as the judge gave its probabilities; fitted_*: by temperatures of other cases. gain: of the log
    loss, with its 95% interval over cases.
    """

    n: int
    temperature: float
    log_loss: float
    fitted_log_loss: float
    brier: float
    fitted_brier: float
    gain: float
    gain_low: float
    gain_high: float

    @property
    def is_better(self) -> bool:
        """Whether the probabilities are better beyond chance on cases that did not fit it."""
        return self.gain_low > 0


def temper(shares: Floats, temperature: float) -> Floats:
    """Distributions by a temperature. shares: (output, level), each row with sum 1."""
    with np.errstate(divide="ignore"):
        logs = np.log(shares) / temperature
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    tempered: Floats = powers / powers.sum(axis=1, keepdims=True)
    return tempered


def fit_temperature(shares: Floats, level_indices: Codes) -> float:
    """Temperature with the least log loss. level_indices: (output,), the level that people gave."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return float(log_losses(temper(shares, float(np.exp(log_temperature))), level_indices).mean())

    optimum = minimize_scalar(loss, bounds=tuple(np.log(ENDS)), method="bounded")
    return float(np.exp(optimum.x))


def recalibrate(shares: Floats, level_indices: Codes, cases: Codes, rng: np.random.Generator) -> Recalibrated:
    """Fit a temperature on all outputs, and measure it cross-fitted by case. shares: (output, level)."""
    distinct, codes = np.unique(cases, return_inverse=True)
    folds = rng.permutation(distinct.size)[codes.ravel()] % FOLDS
    fitted = shares.copy()
    for fold in np.unique(folds):
        is_out = folds == fold
        if (~is_out).any():
            fitted[is_out] = temper(shares[is_out], fit_temperature(shares[~is_out], level_indices[~is_out]))
    before, after = log_losses(shares, level_indices), log_losses(fitted, level_indices)
    gain = measure_mean(before - after, cases)
    ends = mean_interval(gain)
    return Recalibrated(
        level_indices.size,
        fit_temperature(shares, level_indices),
        float(before.mean()),
        float(after.mean()),
        _brier(shares, level_indices),
        _brier(fitted, level_indices),
        gain.mean,
        ends.low,
        ends.high,
    )


def log_losses(shares: Floats, level_indices: Codes) -> Floats:
    """Log loss of each output's level."""
    chosen = shares[np.arange(level_indices.size), level_indices]
    losses: Floats = -np.log(np.clip(chosen, LEAST_PROBABILITY, 1.0))
    return losses


def _brier(shares: Floats, level_indices: Codes) -> float:
    is_level = np.eye(shares.shape[1])[level_indices]
    return float(np.square(shares - is_level).sum(axis=1).mean())


BETS = np.array([-0.6, -0.25, 0.25, 0.6])  # fixed shares of the wealth; below 1, as contrasts lie in -1..1


def contrasts(scores: Floats, earlier_sums: Floats, earlier_counts: NDArray[np.int64]) -> Floats:
    """New scores minus the means of their anchors, the new score included; in -1..1.

    All arrays: (..., anchor). scores: 0..1, NaN where the judge gave none. earlier_sums, earlier_counts: of the
    anchor's scores before. Without one the contrast is 0, which says nothing.
    """
    differences = (earlier_counts * scores - earlier_sums) / (earlier_counts + 1)
    return np.where(np.isnan(differences), 0.0, differences)


@dataclass(frozen=True, slots=True)
class DriftEvidence:
    """Evidence after some nights. wealth, recent: (..., bet), of gamblers from the first night and from later ones."""

    night_count: int = 0
    wealth: Floats = field(default_factory=lambda: np.ones(BETS.size))
    recent: Floats = field(default_factory=lambda: np.zeros(BETS.size))

    def after(self, night_contrasts: Floats) -> "DriftEvidence":
        """Evidence after one more night. night_contrasts: `contrasts` of the night, (..., anchor)."""
        night = self.night_count + 1
        gain = np.exp(np.log1p(night_contrasts[..., None] * BETS).sum(axis=-2))
        share = 1 / (night * (night + 1))  # of the gamblers who start on this night; all shares add up to 1
        return DriftEvidence(night, self.wealth * gain, (self.recent + share) * gain)

    @property
    def e_value(self) -> Floats:
        """Mean wealth over bets and first nights, (...): 1 in the beginning, large if the scores moved."""
        unspent = 1 / (self.night_count + 1)  # of the gamblers who start later
        mean_wealth: Floats = 0.5 * ((self.wealth + self.recent).mean(axis=-1) + unspent)
        return mean_wealth
