"""A/A test of a judge: noise between its replies to one question, and how often a gate fires on noise alone."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric, scored_category_weights
from gradebook.rubrics.statistics.comparison import CORRECTED_FIGURES, WIN_FIGURES
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval, wilson
from gradebook.rubrics.statistics.noise import UNDRAWN_FIGURES, DrawnOutputs, HeldDraws, ReplicateScores, hold_in_draws
from gradebook.rubrics.statistics.rule_false_alarms import Nominal, nominal_rate
from gradebook.rubrics.statistics.rule_parser import RELEASE_RULE
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL, Rule, names_in
from gradebook.rubrics.statistics.series import Series
from gradebook.tasks.agreement.published_run import unweighted_words
from gradebook.tasks.comparing.attribution import scaled_weights, weigh_pairs
from gradebook.tasks.comparing.case_pairs import ScorePairs, bound_overall, pair_sides
from gradebook.tasks.comparing.decision_study import DecisionStudy, study_decisions
from gradebook.tasks.comparing.figures import ComparedRow, RowMaker, adjust_for_comparison, pair_categories
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.comparing.model_pairs import Wanted, read_side
from gradebook.tasks.comparing.replicates import Replicates, name_replicate, split_replicates
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import open_database

DEFAULT_GATES = (
    GateRule(require=RELEASE_RULE),
    GateRule("mean_diff < 0 and p < 0.05"),
    GateRule("any criterion (mean_diff < 0 and p_adjusted < 0.05)"),
)
USUAL_SHARE = 0.95  # of the draws, whose overall difference is reported
_NOISE = "select * exclude (run_id) from judge_noise where run_id = ? order by criterion_id, model, checkpoint"
_GROUPS = "select distinct model, checkpoint from output_scores order by model, checkpoint"


@dataclass(frozen=True, slots=True)
class Fires:
    """Firings of a rule. unknown_count: draws in which the rule could not be evaluated.

    rate: fired_count / draw_count, 0..1, with Wilson's interval.
    """

    fired_count: int
    unknown_count: int
    draw_count: int

    @property
    def rate(self) -> float:
        """Share of draws in which the rule fired, 0..1."""
        return self.fired_count / self.draw_count

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the rate."""
        return wilson(self.fired_count, self.draw_count)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"rate": self.rate, "rate_low": self.interval.low, "rate_high": self.interval.high}


@dataclass(frozen=True, slots=True)
class SeriesNoise:
    """False alarms of a series of looks at one rule, each with its own noise: probability of one or more, 0..1.

    rate: with the levels of the series; plain_rate: with the rule as it stands on every look.
    """

    looks: int
    rate: float
    plain_rate: float


@dataclass(frozen=True, slots=True)
class RuleNoise:
    """False alarms of one rule, with nothing changed. gate: firing for any model; models: for each, by name."""

    rule: GateRule
    nominal: Nominal | None
    gate: Fires
    models: tuple[tuple[str, Fires], ...]
    series: SeriesNoise | None = None

    def as_json(self) -> dict[str, Any]:
        """JSON object; nominal_rate is null unless the rule has exactly one p."""
        rate, each = (None, None) if self.nominal is None else (self.nominal.rate, self.nominal.each)
        of_models = [{"model": name} | fires.as_json() for name, fires in self.models]
        head = self.rule.as_json() | {"nominal_rate": rate, "nominal_of_each": each}
        series = None if self.series is None else asdict(self.series)
        return head | self.gate.as_json() | {"models": of_models, "series": series}


@dataclass(frozen=True, slots=True)
class JudgedTwice:
    """One model's outputs judged twice. rows: comparison of replicate 0 (A) with replicate 1 (B).

    usual_diff: overall difference not exceeded by 19 of 20 draws; None without an overall score.
    """

    model: str
    rows: tuple[ComparedRow, ...]
    usual_diff: float | None


@dataclass(frozen=True, slots=True)
class JudgeNoise:
    """A/A test of a run's judge. noise: rows of judge_noise. study: variance components, and larger designs.

    note: on cases that were drawn by stratum.
    """

    run: Row
    noise: tuple[Row, ...]
    replicates: Replicates
    models: tuple[JudgedTwice, ...]
    seed: int
    rules: tuple[RuleNoise, ...]
    study: DecisionStudy
    note: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "judge_noise": list(self.noise),
            **asdict(self.replicates),
            "judged_twice": [{"scope": row.scope} | row.as_json() for model in self.models for row in model.rows],
            "usual_diffs": [{"model": model.model, "usual_diff": model.usual_diff} for model in self.models],
            "seed": self.seed,
            "rules": [rule.as_json() for rule in self.rules],
            **self.study.as_json(),
            "note": self.note,
        }


def measure_noise(
    lake: Lake,
    run_id: str,
    gates: Sequence[GateRule] = (),
    *,
    draw_count: int = 1_000,
    seed: int = 0,
    series: Series | None = None,
) -> JudgeNoise:
    """Evaluate gates, by default `DEFAULT_GATES`, on draws of a published run's own replicates, and in a series.

    Raises `InputError` for an unknown run, a judge that did not reply twice, or an invalid rule.
    """
    gates = tuple(gates) or DEFAULT_GATES
    parsed = [gate.parse() for gate in gates]
    for gate, rule in zip(gates, parsed, strict=True):
        _refuse_undrawn(gate.option, rule)
    with connect_up_to_date(lake) as connection, open_database() as memory:
        side = read_side(connection, lake, run_id)
        noise = read_rows(connection, _NOISE, run_id)
        replicates = split_replicates(connection, memory, side)
        found = [_ModelReplicates(memory, side.rubric, group, replicates) for group in read_rows(memory, _GROUPS)]
        note = unweighted_words(connection, run_id)
        study = study_decisions(connection, run_id, [(model.name, model.lines) for model in found])
    for gate in gates:
        ids = {line.scope_id: None for model in found for line in model.lines if line.scope == CRITERION}
        gate.refuse_unknown_ids({CRITERION: [*ids], CATEGORY: [*scored_category_weights(side.rubric)]})
    rngs = np.random.default_rng(seed).spawn(len(found))
    held = [hold_in_draws(parsed, model.drawn_outputs, draw_count, rng) for model, rng in zip(found, rngs, strict=True)]
    of_looks = [] if series is None else _fire_in_series(parsed, found, series, draw_count, seed)
    names = [model.name for model in found]
    compared = adjust_for_comparison([model.rows for model in found])
    return JudgeNoise(
        side.run,
        noise,
        replicates,
        tuple(
            JudgedTwice(name, rows, _usual_diff(draws)) for name, rows, draws in zip(names, compared, held, strict=True)
        ),
        seed,
        tuple(
            replace(_count(gate, rule, index, names, held), series=of_looks[index] if of_looks else None)
            for index, (gate, rule) in enumerate(zip(gates, parsed, strict=True))
        ),
        study,
        note,
    )


def study_run(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> DecisionStudy:
    """Variance components and designs of a published run, as `gradebook noise` has them.

    connection: to the lake. Raises `InputError` as `measure_noise` does.
    """
    with open_database() as memory:
        side = read_side(connection, lake, run_id)
        replicates = split_replicates(connection, memory, side)
        found = [_ModelReplicates(memory, side.rubric, group, replicates) for group in read_rows(memory, _GROUPS)]
        return study_decisions(connection, run_id, [(model.name, model.lines) for model in found])


def _fire_in_series(
    rules: Sequence[Rule], found: "Sequence[_ModelReplicates]", series: Series, draw_count: int, seed: int
) -> list[SeriesNoise]:
    """False alarms of each rule in a series, from the share of draws in which it fires at each look's level."""
    rates: dict[float, NDArray[np.float64]] = {}
    factors = [series.factor(look) for look in range(1, series.looks + 1)]
    for factor in {1.0, *factors}:
        rngs = np.random.default_rng(seed).spawn(len(found))
        fired = [
            hold_in_draws(rules, model.drawn_outputs, draw_count, rng, factor).is_fired
            for model, rng in zip(found, rngs, strict=True)
        ]
        rates[factor] = np.any(fired, axis=0).mean(axis=1)
    quiet = np.prod([1 - rates[factor] for factor in factors], axis=0)
    plain = 1 - (1 - rates[1.0]) ** series.looks
    return [SeriesNoise(series.looks, 1 - one, each) for one, each in zip(quiet.tolist(), plain.tolist(), strict=True)]


class _ModelReplicates:
    """One model's outputs by replicate: rows comparing the first two, and scores of all."""

    def __init__(self, memory: duckdb.DuckDBPyConnection, rubric: Rubric, group: Row, replicates: Replicates) -> None:
        self.name = model_name(group)
        others = range(1, replicates.replicate_count)
        self._sides = [
            pair_sides(memory, Wanted(name_replicate(0), name_replicate(other)), (group, group)) for other in others
        ]
        self._rubric = rubric
        self._ids = [criterion.id for criterion in rubric.criteria]
        self._ids += [name for name in self._sides[0].by_criterion if name not in self._ids]
        self._bounds = weigh_pairs(self._sides[0], rubric).bounds  # weights do not depend on the replicate
        self.rows = tuple(self._rows())
        self.lines = tuple(self._lines())

    @property
    def drawn_outputs(self) -> DrawnOutputs:
        """Input of the draws."""
        sides, places = self._sides, self._sides[0].overall.places
        found = np.searchsorted(sides[0].outputs.places, places)
        passed = np.stack([sides[0].outputs.passed_a, *(side.outputs.passed_b for side in sides)], axis=1)[found]
        passes = ReplicateScores(OVERALL, "", passed, np.arange(places.size), sides[0].overall.cases)
        return DrawnOutputs(places.size, len(sides) + 1, self.lines, passes)

    def _rows(self) -> Iterator[ComparedRow]:
        maker = RowMaker(self.name, self.name, 0)
        sides = bound_overall(self._sides[0], self._rubric, scaled_weights(self._rubric))
        yield maker.overall(sides, self._bounds)
        yield from maker.categories(sides, self._rubric, self._rubric, self._ids)
        yield from maker.criteria(sides, self._ids, self._rubric)

    def _lines(self) -> Iterator[ReplicateScores]:
        yield self._line(OVERALL, "", [side.overall for side in self._sides], self._bounds)
        categories = [[*pair_categories(side, self._rubric, self._rubric, self._ids)] for side in self._sides]
        for parts in zip(*categories, strict=True):
            category, _, bounds = parts[0]
            yield self._line(CATEGORY, category, [pairs for _, pairs, _ in parts], bounds)
        of_rubric = {criterion.id for criterion in self._rubric.criteria}
        for name in self._ids:
            if name in self._sides[0].by_criterion:
                pairs = [side.by_criterion[name] for side in self._sides]
                yield self._line(CRITERION, name, pairs, DIFFERENCES, is_own=name not in of_rubric)

    def _line(
        self, scope: str, scope_id: str, pairs: Sequence[ScorePairs], bounds: Interval, *, is_own: bool = False
    ) -> ReplicateScores:
        """Scores of one row by replicate. pairs: replicate 0 with each other one, same outputs in the same order."""
        first = pairs[0]
        scores = np.stack([first.scores_a, *(each.scores_b for each in pairs)], axis=1)
        outputs = np.searchsorted(self._sides[0].overall.places, first.places)
        return ReplicateScores(scope, scope_id, scores, outputs, first.cases, bounds, is_own)


def _refuse_undrawn(option: str, rule: Rule) -> None:
    for name in names_in(rule):
        if name.figure in UNDRAWN_FIGURES:
            expected = f"{name.figure.replace('boot', 'diff')}, which needs no resampling of each draw"
            if name.figure in (*CORRECTED_FIGURES, *WIN_FIGURES):
                expected = "a figure that depends on neither ratings nor the judge's noise"
            if name.figure == "p_family":
                expected = "p or p_adjusted, which do not depend on other models"
            raise InputError(f"{option}: at character {name.position}", name.figure, expected)


def _usual_diff(draws: HeldDraws) -> float | None:
    """Absolute overall difference not exceeded by `USUAL_SHARE` of the draws."""
    known = np.abs(draws.overall_diffs[~np.isnan(draws.overall_diffs)])
    return float(np.quantile(known, USUAL_SHARE)) if known.size else None


def _count(asked: GateRule, rule: Rule, index: int, names: Sequence[str], held: Sequence[HeldDraws]) -> RuleNoise:
    """Count the failures of one gate. held: draws of each model."""
    fired = [draws.is_fired[index] for draws in held]
    unknown = [np.isnan(draws.held[index]) for draws in held]
    models = zip(names, map(_fires, fired, unknown), strict=True)
    gate = _fires(np.any(fired, axis=0), np.any(unknown, axis=0))
    return RuleNoise(asked, nominal_rate(rule), gate, tuple(models))


def _fires(is_fired: NDArray[np.bool_], is_unknown: NDArray[np.bool_]) -> Fires:
    return Fires(int(is_fired.sum()), int(is_unknown.sum()), is_fired.size)
