"""Coverage of the intervals of calibrated means and of agreement, and how often a sentence about them is false.

    python bench/inference_agreement.py [PART ...] [--rounds 1000]

Parts: calibrate, selection, doubt, agreement, bias, closeness, differences.

Simulates people's ratings and a judge's scores from worlds with a known truth: skewed levels, few ratings, outputs that
go together by case, ratings of outputs that people chose. Prints a line per world and size; without names, all parts.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gradebook.rubrics.statistics.agreement import Measure, count_kinds, measure_raters, measure_sides, two_way_sums
from gradebook.rubrics.statistics.agreement_coefficients import two_way_correlations
from gradebook.rubrics.statistics.calibration import (
    Estimate,
    Rated,
    corrected_mean,
    corrected_sum,
    rated_mean,
    selection_shift,
    suspicious_shift,
)
from gradebook.rubrics.statistics.doubt_sampling import Drawn, doubt_keys, drawn_mean, inclusion_rates
from gradebook.rubrics.statistics.intervals import DIFFERENCES
from gradebook.rubrics.statistics.rater_comparison import alpha_over_people
from gradebook.rubrics.statistics.rating_estimates import post_stratified_mean, rate_next
from gradebook.rubrics.statistics.significance import Chance, chance_of_interval
from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.agreement.published_run import AgreementPart
from gradebook.tasks.agreement.standing import judge_standings

UNRATED = 1_000
Floats = NDArray[np.float64]
TWO, THREE, FIVE = (0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 0.25, 0.5, 0.75, 1.0)
SHARES = {TWO: (0.3, 0.7), THREE: (0.05, 0.10, 0.85), FIVE: (0.05, 0.15, 0.30, 0.35, 0.15)}


@dataclass(frozen=True, slots=True)
class World:
    """Levels and a judge that is too lenient. size: outputs a case, all alike by half.

    given: shares of the levels; None: those of `SHARES`.
    """

    name: str
    levels: tuple[float, ...]
    size: int = 1
    given: tuple[float, ...] | None = None

    @property
    def shares(self) -> tuple[float, ...]:
        return self.given or SHARES[self.levels]

    @property
    def true_mean(self) -> float:
        return float(np.dot(self.levels, self.shares))

    def draw(self, rng: np.random.Generator, case_count: int) -> tuple[Floats, Floats]:
        """Ratings and the judge's scores: (case, size) each."""
        shape = (case_count, self.size)
        last = len(self.levels) - 1
        # Half of the variance of a latent quality is the case's: the shares of the levels stay as they are.
        latent = np.sqrt(0.5) * rng.normal(size=(case_count, 1)) + np.sqrt(0.5) * rng.normal(size=shape)
        if self.size == 1:
            latent = rng.normal(size=shape)
        edges = _normal_edges(self.shares)
        rating = np.searchsorted(edges, latent)
        if self.levels == TWO:
            score = np.where(rng.random(shape) < np.where(rating == 1, 0.95, 0.25), 1, 0)
        elif self.levels == THREE:
            score = np.clip(rating + (rng.random(shape) < 0.4), 0, last)
            score = np.clip(score - (rng.random(shape) < 0.05), 0, last)
        else:
            score = np.clip(rating + rng.integers(0, 2, shape) + rng.integers(-1, 2, shape), 0, last)
        return np.asarray(self.levels)[rating], np.asarray(self.levels)[score]


def _normal_edges(shares: tuple[float, ...]) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.cumsum(shares)[:-1]))


WORLDS = (
    World("two levels, rate .7", TWO),
    World("five levels", FIVE),
    World("three levels .05/.10/.85", THREE),
    World("two levels, whole cases of 5", TWO, 5),
    World("five levels, whole cases of 5", FIVE, 5),
    World("three levels, whole cases of 5", THREE, 5),
    World("two levels, rate .97", TWO, given=(0.03, 0.97)),
    World("three levels .01/.02/.97", THREE, given=(0.01, 0.02, 0.97)),
)


@dataclass(frozen=True, slots=True)
class Tally:
    """Intervals of one simulation. Shares are 0..1 of the rounds with an interval, `shown` of all rounds."""

    bias: float
    rmse: float
    covered: float
    below: float
    above: float
    width: float
    shown: float

    def __str__(self) -> str:
        return (
            f"bias {self.bias:+.4f} rmse {self.rmse:.4f} covered {self.covered:6.1%} true below {self.below:5.1%} "
            f"above {self.above:5.1%} width {self.width:.3f} shown {self.shown:6.1%}"
        )


def tally(values: list[tuple[float | None, float | None, float | None]], truth: float) -> Tally | None:
    """Summarise value, low and high of each round; None without an interval."""
    known = np.array([value for value, _, _ in values if value is not None])
    ends = np.array([(low, high) for _, low, high in values if low is not None], dtype=float).reshape(-1, 2)
    if not len(ends):
        return None
    below, above = (truth < ends[:, 0] - 1e-12).mean(), (truth > ends[:, 1] + 1e-12).mean()
    error = known - truth
    return Tally(
        float(error.mean()), float(np.sqrt(np.square(error).mean())), float(1 - below - above), float(below),
        float(above), float((ends[:, 1] - ends[:, 0]).mean()), len(ends) / len(values),
    )  # fmt: skip


def draw_rated(world: World, rng: np.random.Generator, case_count: int) -> Rated:
    """So many rated cases, whole, beside `UNRATED` unrated outputs."""
    ratings, scores = world.draw(rng, case_count + UNRATED // world.size)
    cases = np.repeat(np.arange(len(ratings)), world.size)
    split = case_count * world.size
    names = (None, None) if world.size == 1 else (cases[:split], cases[split:])
    return Rated(ratings.ravel()[:split], scores.ravel()[:split], scores.ravel()[split:], *names)


def _ends(found: Estimate) -> tuple[float | None, float | None, float | None]:
    return found.value, found.ci_low, found.ci_high


def calibrate(rounds: int) -> Iterator[str]:
    """Corrected and plain means of a random part of the outputs."""
    for world in WORLDS:
        for count in (10, 20, 30, 50, 100, 200) if world.size == 1 else (5, 10, 20, 40):
            rng = np.random.default_rng(count)
            drawn = [draw_rated(world, rng, count) for _ in range(rounds)]
            corrected = [_ends(corrected_mean(rated, world.levels)) for rated in drawn]
            alone = [_ends(rated_mean(rated, world.levels)) for rated in drawn]
            yield f"{world.name:<31}{count:>4} corrected  {tally(corrected, world.true_mean)}"
            yield f"{'':<31}{'':>4} alone      {tally(alone, world.true_mean)}"


Choose = Callable[[np.random.Generator, Floats, Floats, int], NDArray[np.intp]]


def _by_chance(rng: np.random.Generator, ratings: Floats, _scores: Floats, count: int) -> NDArray[np.intp]:
    return rng.permutation(ratings.size)[:count]


def _lowest_first(rng: np.random.Generator, _ratings: Floats, scores: Floats, count: int) -> NDArray[np.intp]:
    """The lowest of the judge, three tenths of all, and then those that `--rate-next` names."""
    first = np.argsort(scores + 1e-6 * rng.random(scores.size))[: 3 * count // 10]
    is_rated = np.isin(np.arange(scores.size), first)
    more = rate_next(scores, is_rated, np.zeros(scores.size), count - first.size, int(rng.integers(1 << 30)))
    return np.append(first, np.asarray(more, dtype=np.intp))


def _only_lowest(rng: np.random.Generator, _ratings: Floats, scores: Floats, count: int) -> NDArray[np.intp]:
    return np.argsort(scores + 1e-6 * rng.random(scores.size))[:count]


def _weighted(weight: Callable[[Floats, Floats], Floats]) -> Choose:
    def choose(rng: np.random.Generator, ratings: Floats, scores: Floats, count: int) -> NDArray[np.intp]:
        weights = weight(ratings, scores)
        return rng.choice(ratings.size, count, replace=False, p=weights / weights.sum())

    return choose


CHOICES: dict[str, Choose] = {
    "at random": _by_chance,
    "low scores twice as often": _weighted(lambda _, scores: 1.0 + (scores < 0.5)),
    "the lowest, then --rate-next": _lowest_first,
    "the lowest alone": _only_lowest,
    "what looks bad, 3 to 1": _weighted(lambda ratings, _: 1.0 + 2.0 * (ratings < 0.5)),
}


def selection(rounds: int) -> Iterator[str]:
    """Means that are shown of ratings that people chose; `noticed`: the share of rounds without a finding."""
    for world in WORLDS[:3]:
        for name, choose in CHOICES.items():
            for count in (30, 100):
                rng = np.random.default_rng(count)
                found, noticed = [], 0
                for _ in range(rounds):
                    ratings, scores = (each.ravel() for each in world.draw(rng, count + UNRATED))
                    is_rated = np.isin(np.arange(ratings.size), choose(rng, ratings, scores, count))
                    rated = Rated(ratings[is_rated], scores[is_rated], scores[~is_rated])
                    is_noticed = abs(selection_shift(rated) or 0.0) > suspicious_shift(rated)
                    noticed += is_noticed
                    shown = post_stratified_mean(rated) if is_noticed else corrected_mean(rated, world.levels)
                    found.append(_ends(shown))
                summary = tally(found, world.true_mean) if any(value is not None for value, _, _ in found) else "none"
                yield f"{world.name:<25}{name:<29}{count:>4} noticed {noticed / rounds:6.1%} {summary}"


@dataclass(frozen=True, slots=True)
class Voices:
    """A latent quality heard by raters with an error of sd .7 each and a severity; both half by case, if it has more.

    levels: scores; shares: of each level in the quality. severities: (rater,), None: drawn anew with sd .5.
    """

    name: str
    shares: tuple[float, ...]
    severities: tuple[float, ...] | None
    statistics: tuple[str, ...]
    case_counts: tuple[int, ...]
    size: int = 1

    @property
    def levels(self) -> Floats:
        return np.linspace(0.0, 1.0, len(self.shares))

    def draw(self, rng: np.random.Generator, case_count: int, severities: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """Scores (rater, output) and the case of each output."""
        shape = (severities.size, case_count * self.size)
        own = 1.0 if self.size == 1 else np.sqrt(0.5)
        quality = own * rng.normal(size=shape[1])
        heard = severities[:, None] + 0.7 * own * rng.normal(size=shape)
        if self.size > 1:  # half of the quality and of each rater's error is the case's
            quality = quality + own * np.repeat(rng.normal(size=case_count), self.size)
            heard = heard + 0.7 * own * np.repeat(rng.normal(size=(shape[0], case_count)), self.size, axis=1)
        heard = heard + quality
        edges = _normal_edges(self.shares) * np.sqrt(1.49)
        return self.levels[np.searchsorted(edges, heard)], np.repeat(np.arange(case_count), self.size)

    def raters(self, rng: np.random.Generator) -> Floats:
        return 0.5 * rng.normal(size=4) if self.severities is None else np.asarray(self.severities)


_PAIR = ("cohen_kappa", "cohen_kappa_quadratic", "gwet_ac1", "spearman", "bias", "percent_agreement")
_ALL = ("fleiss_kappa", "alpha_ordinal", "alpha_interval", "icc_1_1", "icc_3_1")
EVEN, TOP = (0.2, 0.2, 0.2, 0.2, 0.2), (0.04, 0.08, 0.88)
VOICES = (
    Voices("judge and a rater, five levels", EVEN, (0.2, 0.0), _PAIR, (8, 10, 20, 50, 200)),
    Voices("judge and a rater, 88% top", TOP, (0.2, 0.0), _PAIR, (20, 50, 100, 200)),
    Voices("the same, 5 outputs a case", EVEN, (0.2, 0.0), _PAIR, (10, 20, 40), 5),
    Voices("four raters", EVEN, (0.3, 0.1, -0.1, -0.3), _ALL, (8, 10, 20, 50)),
    Voices("four raters, 5 outputs a case", EVEN, (0.3, 0.1, -0.1, -0.3), _ALL, (10, 20, 40), 5),
    Voices("four raters drawn anew", EVEN, None, ("icc_2_1", "icc_2_k"), (10, 50, 200)),
)


def _measured(scores: Floats, levels: Floats, cases: NDArray[np.intp] | None, *, is_pair: bool) -> dict[str, Measure]:
    found = (measure_sides if is_pair else measure_raters)(scores, scores, levels, cases)
    return {each.statistic: each for each in found.measures}


def _truths(world: Voices) -> dict[str, float]:
    """Figures of 100,000 outputs; with raters drawn anew, of 200 raters, and of means of four of these."""
    rng = np.random.default_rng(0)
    is_pair = world.statistics is _PAIR
    if world.severities is not None:
        scores, _ = world.draw(rng, 100_000 // world.size, world.raters(rng))
        points = _measured(scores, world.levels, None, is_pair=is_pair)
        return {name: points[name].value or 0.0 for name in world.statistics}
    scores, _ = world.draw(rng, 20_000, 0.5 * rng.normal(size=200))
    kinds = count_kinds(scores, scores)
    one = float(two_way_correlations(two_way_sums(kinds, kinds.counts[None].astype(np.float64)))[0][0])
    return {"icc_2_1": one, "icc_2_k": 4.0 * one / (1.0 + 3.0 * one)}


def agreement(rounds: int) -> Iterator[str]:
    """Every statistic against its value in a very large sample of the same world."""
    for world in VOICES:
        truths = _truths(world)
        for count in world.case_counts:
            rng = np.random.default_rng(count)
            found: dict[str, list[tuple[float | None, float | None, float | None]]] = {}
            for _ in range(rounds):
                scores, cases = world.draw(rng, count, world.raters(rng))
                codes = cases if world.size > 1 else None
                measures = _measured(scores, world.levels, codes, is_pair=world.statistics is _PAIR)
                for name in world.statistics:
                    each = measures[name]
                    found.setdefault(name, []).append((each.value, each.ci_low, each.ci_high))
            for name, values in found.items():
                yield f"{world.name:<31}{count:>4} {name:<22} true {truths[name]:.3f} {tally(values, truths[name])}"


CRITERIA = 5


def bias(rounds: int) -> Iterator[str]:
    """Share of rounds in which some criterion is called biased, of five on which the judge is like people."""
    world = Voices("five criteria, no bias", EVEN, (0.0, 0.0), ("bias",), ())
    for size in (1, 5):
        for count in (10, 20, 40):
            rng = np.random.default_rng(count)
            alone = adjusted = 0
            for _ in range(rounds):
                parts = []
                for place in range(CRITERIA):
                    scores, cases = replace(world, size=size).draw(rng, count, np.zeros(2))
                    found = measure_sides(scores, scores, world.levels, cases)
                    names = (f"c{place}", JUDGE_RATERS, None, None, found.n, found.pair_count)
                    parts.append(AgreementPart(*names, found.measures, (), ()))
                biases = [part.measure("bias") for part in parts]
                alone += any(chance_of_interval(each.ci_low, each.ci_high).is_beyond for each in biases)
                adjusted += any(each.is_biased for each in judge_standings(parts, (), ()))
            yield (
                f"five criteria, {size} outputs a case, {count:>3} cases: biased by its own interval "
                f"{alone / rounds:5.1%}, adjusted {adjusted / rounds:5.1%}"
            )


CLOSENESS = {
    "passes everything": (None, 0.15, 0.15, 0.15),
    "behind people by alpha .1": (0.25, 0.15, 0.15, 0.15),
    "like a person": (0.15, 0.15, 0.15, 0.15),
    "better than a person": (0.10, 0.15, 0.15, 0.15),
}


def closeness(rounds: int) -> Iterator[str]:
    """Share of rounds in which a sentence on the judge beside people stands. Two levels, 80% the upper one."""
    for name, errors in CLOSENESS.items():
        for count in (30, 100, 300):
            rng = np.random.default_rng(count)
            said, raw, alphas = Counter[Chance](), 0, []
            for _ in range(rounds):
                scores = _two_levels(rng, count, errors)
                judge, people = (
                    measure_sides(scores, scores, np.array(TWO)),
                    measure_raters(scores[1:], scores[1:], np.array(TWO)),
                )
                beside = alpha_over_people(scores, np.arange(count))
                alphas.append(beside.value or 0.0)
                names = ("tone", JUDGE_RATERS, None, None, judge.n, judge.pair_count)
                parts = [AgreementPart(*names, (*judge.measures, beside), (), ())]
                parts += [AgreementPart("tone", RATERS, None, None, people.n, 0, people.measures, (), ())]
                (found,) = judge_standings(parts, (), ())
                said[found.beside_people] += 1
                raw += (found.rate or 0.0) >= (found.people_rate or 1.0)
            yield (
                f"{name:<27}{count:>4} outputs: alpha against people {np.mean(alphas):+.3f}; agrees as people do "
                f"{said[Chance.ABOVE] / rounds:5.1%}, less than people {said[Chance.BELOW] / rounds:5.1%}; "
                f"raw agreement at least that of people {raw / rounds:5.1%}"
            )


def _two_levels(rng: np.random.Generator, count: int, errors: tuple[float | None, ...]) -> Floats:
    quality = rng.random(count)
    return np.array(
        [
            np.ones(count) if error is None else (quality + error * rng.normal(size=count) > 0.2).astype(np.float64)
            for error in errors
        ]
    )


def corrected_differences(rounds: int) -> Iterator[str]:
    """Difference of two equal models; one judge, too kind. Overall, and on one criterion that 95% pass."""
    overall = [(0.5, THREE, None), (0.3, FIVE, None), (0.2, TWO, None)]
    for size, parts in ((1, overall), (5, overall), (1, [(1.0, TWO, (0.05, 0.95))])):
        shares = [share for share, _, _ in parts]
        worlds = [World("", levels, size, given) for _, levels, given in parts]
        for count in (50, 100, 200):
            rng, held, widths = np.random.default_rng(count), 0, []
            case_count = count + 600 // size
            for _ in range(rounds):
                sums = []
                for _model in "AB":
                    drawn = [_numbered(*world.draw(rng, case_count), count) for world in worlds]
                    sums.append(corrected_sum([*zip(shares, drawn, strict=True)], case_count))
                interval = sums[1].minus(sums[0]).interval(DIFFERENCES)
                if interval is not None:
                    held += interval.low <= 0.0 <= interval.high
                    widths.append(interval.high - interval.low)
            covered = f"covered {held / rounds:6.1%} width {np.mean(widths):.3f}"
            yield f"{len(parts)} criteria, {size} output(s) a case, {count:>3} rated cases: {covered}"
    yield from _rare_errors(rounds)


def _rare_errors(rounds: int) -> Iterator[str]:
    """Difference of two models, of which one is bad in 3% of cases, as only people see; the judge is within 0.02."""
    for count in (50, 100, 200):
        rng, held = np.random.default_rng(count), 0
        for _ in range(rounds):
            sums = []
            for share in (0.0, 0.03):
                scores = np.clip(0.9 + rng.normal(0, 0.05, (count + 600, 1)), 0.0, 1.0)
                ratings = np.clip(scores + rng.normal(0, 0.02, scores.shape), 0.0, 1.0)
                ratings = np.where(rng.random(scores.shape) < share, 0.1, ratings)
                sums.append(corrected_sum([(1.0, _numbered(ratings, scores, count))], count + 600))
            interval = sums[1].minus(sums[0]).interval(DIFFERENCES)
            held += interval is not None and interval.low <= 0.03 * (0.1 - 0.899) <= interval.high
        yield f"errors in 3% of B's outputs, {count:>3} rated cases: covered {held / rounds:6.1%}"


def _numbered(ratings: Floats, scores: Floats, count: int) -> Rated:
    cases = np.repeat(np.arange(len(ratings)), ratings.shape[1])
    split = count * ratings.shape[1]
    rated, judged = ratings.ravel(), scores.ravel()
    return Rated(rated[:split], judged[:split], judged[split:], cases[:split], cases[split:])


Doubtful = tuple[Floats, Floats, Floats, NDArray[np.int64]]  # people's levels, the judge's, its doubts, cases


def _of_quality(rng: np.random.Generator, quality: Floats, least: float | None) -> Doubtful:
    """People pass with a probability that the judge knows; it says so, or passes from a least one on."""
    levels = (rng.random(quality.size) < quality) * 1.0
    judged = np.clip(quality + 0.05, 0.0, 1.0) if least is None else (quality > least) * 1.0
    return levels, judged, np.minimum(quality, 1.0 - quality), np.arange(quality.size)


def _of_doubt_alone(rng: np.random.Generator) -> Doubtful:
    levels = (rng.random(UNRATED) < 0.9) * 1.0
    judged = np.where(rng.random(UNRATED) < 0.8, levels, 1.0)
    return levels, judged, rng.random(UNRATED) * 0.5, np.arange(UNRATED)


def _of_kind_judge(rng: np.random.Generator) -> Doubtful:
    levels = rng.choice(THREE, UNRATED, p=SHARES[THREE])
    judged = np.where(rng.random(UNRATED) < 0.7, levels, np.minimum(levels + 0.5, 1.0))
    return levels, judged, rng.random(UNRATED) * np.where(judged == levels, 0.2, 0.5), np.arange(UNRATED)


def _of_cases(rng: np.random.Generator) -> Doubtful:
    cases = np.arange(UNRATED) // 5
    levels = (rng.random(UNRATED) < rng.beta(3, 1.5, UNRATED // 5)[cases]) * 1.0
    judged = (rng.random(UNRATED) < np.where(levels > 0, 0.9, 0.3)) * 1.0
    return levels, judged, rng.random(UNRATED) * np.where(judged == levels, 0.1, 0.4), cases


DOUBTFUL: dict[str, tuple[float, Callable[[np.random.Generator], Doubtful]]] = {
    "two levels, doubt where it errs": (0.7, lambda rng: _of_quality(rng, rng.beta(1.5, 4.5 / 7, UNRATED), 0.45)),
    "probabilities, rate .93": (4 / 4.3, lambda rng: _of_quality(rng, rng.beta(4, 0.3, UNRATED), None)),
    "doubt that says nothing, rate .9": (0.9, _of_doubt_alone),
    "three levels, too kind": (0.9, _of_kind_judge),
    "two levels, 5 outputs a case": (2 / 3, _of_cases),
}


def doubt(rounds: int) -> Iterator[str]:
    """Mean rating of 1,000 outputs by the queue `uncertain`: weighted, and as the mean of the ratings."""
    for name, (truth, draw) in DOUBTFUL.items():
        for count in (30, 50, 100, 200):
            rng, held, found = np.random.default_rng(count), 0, []
            for _ in range(rounds):
                levels, judged, doubts, cases = draw(rng)
                keys, weights = doubt_keys(doubts, rng)
                is_rated = np.argsort(np.argsort(keys)) < count
                rates, _ = inclusion_rates(keys, weights, is_rated)
                estimate = drawn_mean(Drawn(judged, np.where(is_rated, levels, np.nan), rates, cases))
                if estimate.value is not None and estimate.ci_low is not None and estimate.ci_high is not None:
                    held += estimate.ci_low <= truth <= estimate.ci_high
                    found.append((estimate.value - truth, estimate.width, levels[is_rated].mean() - truth))
            bias, width, plain = np.mean(found, axis=0)
            yield (
                f"{name:34} {count:>3} ratings: bias {bias:+.3f}, covered {held / rounds:6.1%}, width {width:.3f}; "
                f"bias of the plain mean {plain:+.3f}"
            )


PARTS: dict[str, Callable[[int], Iterator[str]]] = {
    "calibrate": calibrate,
    "selection": selection,
    "doubt": doubt,
    "agreement": agreement,
    "bias": bias,
    "closeness": closeness,
    "differences": corrected_differences,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, default=1_000)
    arguments = parser.parse_args()
    for name in arguments.parts or PARTS:
        print(f"{name}, {arguments.rounds:,} rounds, 95% intervals", flush=True)
        for line in PARTS[name](arguments.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
