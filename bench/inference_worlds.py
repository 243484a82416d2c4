"""Worlds that statisticians asked about and no other file simulates: costs, wins, spread, few cases, raters, nights.

python bench/inference_worlds.py [PART ...] [--rounds 1000]

Parts: costs, wins, spread, tiny, clusters, settle, easy, stricter, shocks, nights, unkind; by default all.
Each prints rows of a table in Markdown: the world, the sizes and the percentage for each.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.special import ndtr

from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.calibration import measure_influences
from gradebook.rubrics.statistics.comparison import UnpairedDifference, measure_pairs, measure_wins
from gradebook.rubrics.statistics.distributions import measure_spread
from gradebook.rubrics.statistics.intervals import DIFFERENCES, measure_means
from gradebook.rubrics.statistics.judge_quality import DriftEvidence, contrasts
from gradebook.rubrics.statistics.means import (
    count_moved,
    lower_ends,
    measure_difference,
    measure_scores,
    score_interval_of,
)
from gradebook.rubrics.statistics.rater_comparison import alpha_over_people
from gradebook.rubrics.statistics.rater_models import SeverityFit, settle_labels
from gradebook.rubrics.statistics.series import METHODS, Series
from gradebook.rubrics.statistics.strata import count_cases_once, measure_strata
from gradebook.tasks.reporting.sections.agents import solved_cost

Draw = Callable[[np.random.Generator, int], Floats]
ALPHA, NIGHTS, ANCHORS = 0.05, 60, 150


def row(world: str, sizes: Sequence[object], cells: Sequence[str]) -> str:
    """Row of a table: the world, its sizes, what was found for each."""
    return f"| {world} | {' / '.join(map(str, sizes))} | {' / '.join(cells)} |"


def percent(hits: float, count: float) -> str:
    """Share in percent; a dash without a round."""
    return f"{100 * hits / count:.1f}" if count else "–"


COSTS: dict[str, tuple[Draw, float]] = {  # costs of a run, and their mean
    "log-normal, sd 1": (lambda rng, n: rng.lognormal(0.0, 1.0, n), np.exp(0.5)),
    "log-normal, sd 2": (lambda rng, n: rng.lognormal(0.0, 2.0, n), np.exp(2.0)),
    "Pareto, 1.5": (lambda rng, n: 1.0 + rng.pareto(1.5, n), 3.0),
    "5% cost 500 times as much": (lambda rng, n: np.where(rng.random(n) < 0.05, 500.0, 1.0), 0.05 * 500 + 0.95),
}


def costs(rounds: int) -> Iterator[str]:
    """Cost of a solved task, of which 60% are: share covered, and in brackets the share of rounds with an interval."""
    rng = np.random.default_rng(1)
    for name, (draw, mean) in COSTS.items():
        sizes, cells = (20, 50, 100, 300), []
        for n in sizes:
            is_shown, is_held = np.zeros(rounds, np.bool_), np.zeros(rounds, np.bool_)
            for place in range(rounds):
                cost = solved_cost(draw(rng, n), (rng.random(n) < 0.6).astype(float), [str(case) for case in range(n)])
                is_shown[place] = cost.reason is None
                is_held[place] = cost.interval.low <= mean / 0.6 <= cost.interval.high
            held = percent(is_held[is_shown].sum(), is_shown.sum())
            cells.append(f"{held} (in {percent(is_shown.sum(), rounds)})")
        yield row(f"cost of a solved task: {name}", sizes, cells)


def wins(rounds: int) -> Iterator[str]:
    """Win rate, a tie as half, where ties dominate: share covered."""
    rng = np.random.default_rng(2)
    for lost, sizes in ((0.02, (40, 160, 400)), (0.01, (100, 400, 1_000))):
        cells = []
        for n in sizes:
            held = 0
            for _ in range(rounds):
                found = measure_wins(-(rng.random(n) < lost).astype(float), np.arange(n), 0.1)
                held += (found.win_rate_low or 0.0) <= 0.5 - lost / 2 <= (found.win_rate_high or 1.0)
            cells.append(percent(held, rounds))
        yield row(f"win rate: B loses {lost:.0%}, the rest are ties", sizes, cells)


SPREADS: dict[str, tuple[Draw, Draw]] = {  # equal standard deviations
    "one lump of 0.3 in 10%, and normal": (
        lambda rng, n: np.where(rng.random(n) < 0.1, 0.3, 0.0),
        lambda rng, n: rng.normal(0.0, 0.09, n),
    ),
    "t with 3 degrees of freedom, both": (
        lambda rng, n: rng.standard_t(3, n),
        lambda rng, n: rng.standard_t(3, n),
    ),
}


def spread(rounds: int) -> Iterator[str]:
    """Two sides of equal standard deviation: how often one is called steadier."""
    rng = np.random.default_rng(3)
    for name, (draw_a, draw_b) in SPREADS.items():
        sizes, cells = (20, 50, 200), []
        for n in sizes:
            called = 0
            for _ in range(rounds):
                called += measure_spread(draw_a(rng, n), draw_b(rng, n), np.arange(n)).outcome.is_beyond
            cells.append(percent(called, rounds))
        yield row(f"called steadier: {name}", sizes, cells)


def tiny(rounds: int) -> Iterator[str]:
    """A model that is worse by the margin, in few cases: how often `not_worse_by` passes."""
    rng = np.random.default_rng(4)
    for margin in (0.1, 0.3):
        worlds: dict[str, Callable[[tuple[int, int]], Floats]] = {
            f"-1 in {margin:.0%}": lambda shape, margin=margin: -(rng.random(shape) < margin).astype(float),
            f"normal around -{margin:g}, sd 0.1": lambda shape, margin=margin: rng.normal(-margin, 0.1, shape),
            f"each exactly -{margin:g}": lambda shape, margin=margin: np.full(shape, -margin),
        }
        for name, draw in worlds.items():
            sizes, cells = (3, 5, 10, 20, 30), []
            for n in sizes:
                found = draw((10 * rounds, n))
                passed = lower_ends(measure_means(found), count_moved(found)) > -margin + 1e-9
                cells.append(percent(passed.sum(), 10 * rounds))
            yield row(f"passes not_worse_by({margin:g}): {name}", sizes, cells)


def clusters(rounds: int) -> Iterator[str]:
    """Pairs of few clusters of unlike sizes, correlation 0.5, no difference: share covered, and beyond chance."""
    rng = np.random.default_rng(5)
    for sizes in ((20, 20), (5, 60), (5, 20, 60), (20, 20, 20, 20)):
        codes, held, beyond = np.repeat(np.arange(len(sizes)), sizes), 0, 0
        for _ in range(rounds):
            shared, own = rng.normal(0.0, 0.2, len(sizes))[codes], rng.normal(0.0, 0.2, codes.size)
            found = measure_pairs(np.zeros(codes.size), np.clip(shared + own, -1.0, 1.0), codes)
            held += (found.diff_low or -1.0) <= 0.0 <= (found.diff_high or 1.0)
            beyond += (found.p or 1.0) <= 0.05
        cells = [f"covered {percent(held, rounds)}", f"beyond chance {percent(beyond, rounds)}"]
        yield row("clusters of so many pairs", sizes, cells)


def settle(rounds: int) -> Iterator[str]:
    """Labels settled from three sources (Dawid and Skene): share right where they are shown, of the majority there, as
    the model states it, and in brackets the share of rounds in which they are shown.
    """
    worlds = {
        "right in 75%, shares .9/.08/.02": ([0.9, 0.08, 0.02], 0.75, 0.0),
        "right in 70%, two levels": ([0.5, 0.5], 0.7, 0.0),
        "right in 75%, two share half of their errors": ([0.7, 0.3], 0.75, 0.5),
    }
    rng, few = np.random.default_rng(6), max(rounds // 10, 5)
    for name, (shares, right, shared) in worlds.items():
        sizes, cells = (300,), []
        for n in sizes:
            shown = []
            for _ in range(few):
                truth = rng.choice(len(shares), n, p=shares)
                wrong = (truth + rng.integers(1, len(shares), (3, n))) % len(shares)
                labels = np.where(rng.random((3, n)) < right, truth, wrong)
                labels[1] = np.where(rng.random(n) < shared, labels[0], labels[1])
                settled = settle_labels(
                    np.repeat(np.arange(3), n), np.tile(np.arange(n), 3), labels.ravel(), len(shares)
                )
                if settled.reason is not None:
                    continue
                votes = np.stack([(labels == level).sum(axis=0) for level in range(len(shares))])
                most = (votes + 0.1 * rng.random(votes.shape)).argmax(axis=0)  # ties by chance
                is_right = settled.posteriors.argmax(axis=1) == truth
                shown.append((is_right.mean(), (most == truth).mean(), settled.posteriors.max(axis=1).mean()))
            means = 100 * np.mean(shown or [(np.nan,) * 3], axis=0)
            cells.append("{:.1f}, {:.1f}, {:.1f}".format(*means) + f" (in {percent(len(shown), few)})")
        yield row(f"settled, majority, stated: {name}", sizes, cells)


def easy(rounds: int) -> Iterator[str]:
    """Alpha of a judge like people, less that among people; one person rates only easy outputs: share covered."""

    def drawn(rng: np.random.Generator, n: int) -> Floats:
        is_hard = rng.random(n) < 0.4
        truth, errors = rng.random(n) < 0.6, rng.random((4, n)) < np.where(is_hard, 0.35, 0.05)
        scores = np.where(errors, ~truth, truth).astype(float)
        scores[3, is_hard] = np.nan
        return scores

    rng, few = np.random.default_rng(7), max(rounds // 2, 10)
    truth = float(alpha_over_people(drawn(rng, 200_000), np.arange(200_000)).value or 0.0)
    sizes, cells = (30, 100, 300), []
    for n in sizes:
        found = [alpha_over_people(drawn(rng, n), np.arange(n)) for _ in range(few)]
        known = [each for each in found if each.ci_low is not None and each.ci_high is not None]
        held = sum(each.ci_low <= truth <= each.ci_high for each in known)
        cells.append(f"{percent(held, len(known))} (in {percent(len(known), few)})")
    yield row(f"alpha over people (true {truth:+.3f}), one of three rates easy outputs", sizes, cells)


def stricter(rounds: int) -> Iterator[str]:
    """A rater becomes stricter before B is rated: how often the adjusted mean of B covers its own."""
    rng, few, n = np.random.default_rng(8), max(rounds // 4, 10), 80
    drifts, cells = (0.0, 0.05, 0.1, 0.2), []
    for drift in drifts:
        held = 0
        for _ in range(few):
            value, is_b = rng.normal(0.6, 0.1, n), np.arange(n) >= n // 2
            scores = value + np.array([[0.0], [-0.05], [0.05]]) + rng.normal(0.0, 0.05, (3, n))
            scores[0, is_b] -= drift
            scores[rng.integers(0, 3, n), np.arange(n)] = np.nan
            mean = SeverityFit(np.clip(scores, 0.0, 1.0), np.arange(n)).mean_of(is_b)
            held += (mean.ci_low or 0.0) <= 0.6 <= (mean.ci_high or 1.0)
        cells.append(percent(held, few))
    yield row("mean of B adjusted for severity; one of three raters gets stricter by", drifts, cells)


def shocks(rounds: int) -> Iterator[str]:
    """Anchors with errors shared by a night: epochs of 60 nights with an alarm, although nothing lasts."""
    rng, sds, cells = np.random.default_rng(9), (0.0, 0.01, 0.02, 0.05), []
    for sd in sds:
        value = rng.uniform(0.2, 0.8, (rounds, ANCHORS))

        def replies(value: Floats, sd: float = sd) -> Floats:
            shock = rng.normal(0.0, sd, (len(value), 1))
            return np.clip(value + shock + rng.normal(0.0, 0.05, value.shape), 0.0, 1.0)

        sums, counts = replies(value), np.ones(value.shape, np.int64)
        evidence, fired = DriftEvidence(), np.zeros(rounds, np.bool_)
        for night in range(NIGHTS):
            chosen = (np.arange(40) + 40 * night) % ANCHORS
            scores = replies(value[:, chosen])
            evidence = evidence.after(contrasts(scores, sums[:, chosen], counts[:, chosen]))
            sums[:, chosen] += scores
            counts[:, chosen] += 1
            fired |= evidence.e_value >= 1 / ALPHA
        cells.append(percent(fired.sum(), rounds))
    yield row("anchors: alarm in an epoch, with a shock of the night of sd", sds, cells)


def nights(rounds: int) -> Iterator[str]:
    """A month of 31 nights against one baseline, effects of nights with autocorrelation 0.8: months with an alarm.

    Also with the variance of the earlier nights' differences added to that of the night's own, and how often a fall of
    0.1 from the tenth night on is found within a week.
    """
    count, sds, columns = 200, (0.0, 0.01, 0.02), np.arange(31)
    cells: dict[str, list[str]] = {method: [] for method in METHODS}
    for sd in sds:
        rng = np.random.default_rng(10)
        baseline, effect = rng.normal(0.0, 0.2, (rounds, count)), rng.normal(0.0, sd, (rounds, 1))
        means, errors, tested = (np.zeros((rounds, columns.size)) for _ in range(3))
        for night in columns:
            found = np.clip(effect + rng.normal(0.0, 0.2, (rounds, count)) - baseline, -1.0, 1.0)
            of_night = measure_means(found)
            means[:, night], errors[:, night] = of_night.mean, of_night.standard_error
            tested[:, night] = measure_difference(of_night, count_moved(found)).p
            effect = 0.8 * effect + rng.normal(0.0, sd * 0.6, (rounds, 1))
        fallen = means - 0.1 * (columns >= 9)
        p_of = [
            (each, _p_after_nights(each, errors, is_added)) for is_added in (False, True) for each in (means, fallen)
        ]
        for method in METHODS:
            levels = np.array([Series(0.05, method).level(1 + night) for night in columns])
            alarms = ((tested < levels) & (means < 0)).any(axis=1).sum()
            _, added = p_of[2]
            added_alarms = ((added < levels) & (means < 0)).any(axis=1).sum()
            week = [((p < levels) & (each < 0))[:, 9:16].any(axis=1).sum() for each, p in (p_of[1], p_of[3])]
            of_rounds = [percent(hits, rounds) for hits in (alarms, added_alarms, *week)]
            cells[method].append("{}, {} (found {}, {})".format(*of_rounds))
    for method in METHODS:
        yield row(f"months with an alarm, {method}, with an effect of the night of sd", sds, cells[method])


def _p_after_nights(means: Floats, errors: Floats, is_added: bool) -> Floats:
    """Normal p of each night, (round, night); with the variance of the earlier nights' means, from the third on."""
    variances = errors**2
    for night in range(2, means.shape[1]) if is_added else ():
        variances[:, night] += means[:, :night].var(axis=1, ddof=1)
    return 2.0 * ndtr(-np.abs(means) / np.sqrt(variances))


def unkind(rounds: int) -> Iterator[str]:
    """An equal model called better, one worse by 0.02 that passes `not_worse_by(0.02)`, and others at their limit."""
    margin = 0.02
    for name, draw in UNKIND.items():
        sizes, cells = (50, 200, 500), []
        for n in sizes:
            rng, shares = np.random.default_rng(n), []
            for loss, least in ((0.0, 0.0), (margin, -margin)):
                found = draw(rng, (rounds, n), loss)
                shares.append(
                    percent((lower_ends(measure_means(found), count_moved(found)) > least + 1e-9).sum(), rounds)
                )
            cells.append(", ".join(shares))
        yield row(f"better, passes: {name}", sizes, cells)
    for n in (20, 50, 100):
        rng, hits = np.random.default_rng(n), 0
        cases = np.append(np.zeros(200, np.int64), np.arange(1, n))
        for _ in range(rounds):
            scores = (rng.random(cases.size) < rng.beta(4, 1, n)[cases]).astype(float)
            mean = measure_strata(scores, count_cases_once(cases), cases, of_scores=True)
            hits += score_interval_of(mean).low >= 0.8
        yield row(
            "mean at its threshold may ship: one case has 200 outputs, the others one", (n,), [percent(hits, rounds)]
        )
    for sizes in ((50, 50), (200, 100), (100, 1_000)):
        rng, hits = np.random.default_rng(sizes[1]), np.zeros(2)
        shared = sizes[0] // 10
        cases = np.arange(sizes[0]), np.append(np.arange(shared), sizes[0] + np.arange(sizes[1] - shared))
        for _ in range(rounds):
            ease = rng.beta(6, 1, sum(sizes))
            a, b = (np.clip(ease[each] + rng.normal(0.0, 0.3, each.size), 0.0, 1.0) for each in cases)
            by_case = measure_influences(b, a, cases[1], cases[0])
            measured = measure_scores(a, cases[0]), measure_scores(b, cases[1])
            low, high = UnpairedDifference(*measured, by_case, DIFFERENCES).ends(0.025)
            hits += low > 0, high < 0
        yield row(
            "unpaired, a tenth of A's cases on both sides: better, worse",
            sizes,
            [percent(each, rounds) for each in hits],
        )


def _lattice(rng: np.random.Generator, shape: tuple[int, int], loss: float) -> Floats:
    """Seven levels, 80% at the top; 15% rise by a level, and a few fall to the lowest one."""
    shares = np.array([0.01, 0.01, 0.01, 0.02, 0.05, 0.1, 0.8])
    of_a = rng.choice(7, shape, p=shares)
    risen = np.where(rng.random(shape) < 0.15, np.minimum(of_a + 1, 6), of_a)
    mean = shares @ np.arange(7) / 6
    lost = 1.0 - (mean - loss) / (mean + 0.15 * shares[:6].sum() / 6)
    return np.where(rng.random(shape) < lost, 0, risen) / 6 - of_a / 6


def _refused_by_length(rng: np.random.Generator, shape: tuple[int, int], loss: float) -> Floats:
    """The judge refuses half of the long outputs of B that are not good, and 2% of A's long ones; at their worst."""
    of_a = rng.choice([0.0, 0.5, 1.0], shape, p=[0.1, 0.1, 0.8])
    of_b = rng.choice([0.0, 0.5, 1.0], shape, p=[0.1 + loss, 0.1, 0.8 - loss])
    lacks_a = rng.random(shape) < 0.2 * 0.02
    lacks_b = (rng.random(shape) < 0.5 * 0.5) & (of_b < 1.0)
    return np.where(lacks_b, 0.0, of_b) - np.where(lacks_a, 1.0, of_a)


UNKIND: dict[str, Callable[[np.random.Generator, tuple[int, int], float], Floats]] = {
    "seven levels, most pairs tied": _lattice,
    "refused by length and model": _refused_by_length,
}


PARTS: dict[str, Callable[[int], Iterator[str]]] = {
    "costs": costs,
    "wins": wins,
    "spread": spread,
    "tiny": tiny,
    "clusters": clusters,
    "settle": settle,
    "easy": easy,
    "stricter": stricter,
    "shocks": shocks,
    "nights": nights,
    "unkind": unkind,
}


def main() -> None:
    """Print the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="parts to print")
    parser.add_argument("--rounds", type=int, default=1_000)
    asked = parser.parse_args()
    for name in asked.parts or PARTS:
        for line in PARTS[name](asked.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
