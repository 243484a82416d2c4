"""A/A test of a judge: noise between its replies to one question, and how often a gate fires on noise alone.

Replicates of the judge are taken as runs of their own: verdicts and scores from each replicate alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric, scored_category_weights
from gradebook.rubrics.prompts.combine_opinions import AGGREGATES, Aggregate, Opinions, combine_opinions
from gradebook.rubrics.statistics.comparison import CORRECTED_FIGURES, WIN_FIGURES
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval, wilson
from gradebook.rubrics.statistics.noise import (
    UNDRAWN_FIGURES,
    DrawnOutputs,
    HeldDraws,
    Nominal,
    ReplicateScores,
    hold_in_draws,
    nominal_rate,
)
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL, RELEASE_RULE, Rule, names_in
from gradebook.rubrics.statistics.series import Series
from gradebook.tasks.agreement.published_run import unweighted_words
from gradebook.tasks.comparing.attribution import scaled_weights, weigh_pairs
from gradebook.tasks.comparing.case_pairs import ScorePairs, bound_overall, pair_sides
from gradebook.tasks.comparing.decision_study import DecisionStudy, study_decisions
from gradebook.tasks.comparing.figures import (
    ComparedRow,
    RowMaker,
    adjust_for_comparison,
    overall_test_count,
    pair_categories,
)
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.comparing.sides import RunPair, Side, read_side
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import open_database, query
from gradebook.tasks.ledger.past_judges import PastJudge, read_past_judge
from gradebook.tasks.marts.models import build_marts
from gradebook.tasks.marts.sources import add_rubric_sources

_RUN_TABLES = {
    "run_opinions": "select output_id, criterion_id, judge, replicate, level_id, score from opinions "
    "where run_id = ? and not is_swapped",
    "run_verdicts": "select output_id, criterion_id, status, score, reason from verdicts where run_id = ?",
    "run_outputs": "select output_id, case_id, model, checkpoint, sample_index, cluster from output_scores "
    "where run_id = ?",
    "run_own": "select * exclude (run_id) from case_criteria where run_id = ?",
}
_COUNTS = "select judge, max(replicate) + 1 as replicate_count from run_opinions group by judge order by judge"


@dataclass(frozen=True, slots=True)
class Replicates:
    """Replicates of a run. output_count: outputs with enough replies; left_out_count: outputs with fewer."""

    replicate_count: int
    output_count: int
    left_out_count: int


def name_replicate(replicate: int) -> str:
    """Id of the run made from one replicate."""
    return f"replicate {replicate}"


def split_replicates(lake: duckdb.DuckDBPyConnection, memory: duckdb.DuckDBPyConnection, side: Side) -> Replicates:
    """Make a run of each replicate: the tables `output_scores`, `verdicts` and `case_criteria` in memory.

    Verdicts without replies, of checks or people, are the same in all. For a panel, replicate r combines its members'
    replicates r. Raises `InputError` if the judge did not reply twice, or is a cascade.
    """
    run_id = side.run["run_id"]
    for name, select in _RUN_TABLES.items():
        memory.register(name, lake.execute(select, [run_id]).to_arrow_table())
    (row,) = read_rows(lake, "select run_id, judge, settings from runs where run_id = ?", run_id)
    judge = read_past_judge(lake, row)
    counts = {str(name): int(count) for name, count in memory.execute(_COUNTS).fetchall()}
    _refuse_single_replies(run_id, judge, counts)
    aggregate = _find_aggregate(run_id, judge, len(counts))
    replicate_count = min(counts.values())
    sizes = {"replicate_count": replicate_count, "judge_count": len(counts)}
    memory.execute(f"create table source_outputs as {query('comparing/replicated_outputs')}", sizes)
    cells = memory.execute(query("comparing/replicate_scores"), {"replicate_count": replicate_count}).to_arrow_table()
    if not cells.num_rows:
        raise InputError(
            f"run {run_id}",
            f"no output with {replicate_count} replies to each question",
            "some: raise `replicate_share` in the judge file",
        )
    _add_verdicts(memory, cells, replicate_count, len(counts), aggregate)
    _add_case_criteria(memory, replicate_count)
    _add_scores(memory, side.rubric, replicate_count)
    (kept_count, all_count) = memory.execute(
        "select (select count(*) from source_outputs), (select count(*) from run_outputs)"
    ).fetchone() or (0, 0)
    return Replicates(replicate_count, kept_count, all_count - kept_count)


def _refuse_single_replies(run_id: str, judge: PastJudge | None, counts: dict[str, int]) -> None:
    if judge is None:
        raise InputError(f"run {run_id}", "no judge", "one that replied several times to each question")
    single = [name for name, count in counts.items() if count < 2]
    if counts and not single:
        return
    files = "the file of each judge of the panel" if len(counts) > 1 else "the judge file"
    raise InputError(
        f"run {run_id}",
        f"one reply of {', '.join(single) or judge.name} to each question",
        f"several: write `replicates: 2` into {files} and evaluate the outputs again",
        "existing replies are not paid for again",
    )


def _find_aggregate(run_id: str, judge: PastJudge | None, judge_count: int) -> Aggregate:
    """Aggregate of the run's panel; a single judge needs none."""
    identity = (judge.identity if judge else None) or {}
    if identity.get("kind") == "cascade":
        raise InputError(
            f"run {run_id}",
            "a cascade",
            "one judge or a panel: a cascade's choice of judges depends on all replicates, so none has a verdict alone",
        )
    if judge_count == 1:
        return "mean"
    aggregate = next((aggregate for aggregate in AGGREGATES if aggregate == identity.get("aggregate")), None)
    if aggregate is None:
        raise InputError(f"run {run_id}", f"no record of how its {judge_count} judges were combined", "a panel")
    return aggregate


def _add_verdicts(
    memory: duckdb.DuckDBPyConnection, cells: pa.Table, replicate_count: int, judge_count: int, aggregate: Aggregate
) -> None:
    """Make the table `verdicts`: each replicate under its own run id. cells: rows of verdict, judge, replicate."""
    memory.execute(
        "create table verdicts "
        "(run_id varchar, output_id varchar, criterion_id varchar, status varchar, score double, reason varchar)"
    )
    step = judge_count * replicate_count
    firsts = cells.select(["output_id", "criterion_id"]).take(pa.array(np.arange(0, cells.num_rows, step)))
    scores, levels = (
        _reshape_by_replicate(cells.column(name), judge_count, replicate_count) for name in cells.column_names[2:]
    )
    for replicate in range(replicate_count):
        combined = _combine(scores[:, :, replicate], levels[:, :, replicate].astype(np.int64), aggregate)
        memory.register("judged", firsts.append_column("score", pa.array(combined, mask=np.isnan(combined))))
        of_replicate = {"run_id": name_replicate(replicate)}
        memory.execute(f"insert into verdicts {query('comparing/replicate_verdicts')}", of_replicate)


def _reshape_by_replicate(column: pa.ChunkedArray, judge_count: int, replicate_count: int) -> NDArray[np.float64]:
    """Reshape to (cell, judge, replicate), NaN for null."""
    values = column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False)
    reshaped: NDArray[np.float64] = values.reshape(-1, judge_count, replicate_count)
    return reshaped


def _combine(scores: NDArray[np.float64], levels: NDArray[np.int64], aggregate: Aggregate) -> NDArray[np.float64]:
    """Combined scores of a panel, (cell,); a single judge's own. scores, levels (their indexes): (cell, judge)."""
    if scores.shape[1] == 1 or not scores.size:
        return scores[:, 0]
    opinions = Opinions(np.ones(scores.shape, dtype=np.bool_), levels, scores)
    return combine_opinions(opinions, np.arange(scores.shape[1]), aggregate, int(levels.max()) + 1).scores


def _add_case_criteria(memory: duckdb.DuckDBPyConnection, replicate_count: int) -> None:
    """Make the table `case_criteria`: per-case criteria, repeated for each replicate."""
    bodies = [body for (body,) in memory.execute("select distinct body from run_own where is_gate").fetchall()]
    thresholds = [read_case_criterion(body).gate_threshold for body in bodies]
    memory.register(
        "gates", pa.table({"body": pa.array(bodies, pa.string()), "gate_threshold": pa.array(thresholds, pa.float64())})
    )
    run_ids = [name_replicate(replicate) for replicate in range(replicate_count)]
    memory.execute(f"create table case_criteria as {query('comparing/replicate_criteria')}", {"run_ids": run_ids})


def _add_scores(memory: duckdb.DuckDBPyConnection, rubric: Rubric, replicate_count: int) -> None:
    """Make the table `output_scores`: the mart, built from the verdicts of each replicate."""
    for replicate in range(replicate_count):
        run_id = name_replicate(replicate)
        add_rubric_sources(memory, run_id, rubric)
        for name in ("verdicts", "case_criteria"):
            memory.execute(f"create or replace view source_{name} as from {name} where run_id = '{run_id}'")
        build_marts(memory, only="output_scores")
        memory.execute("create table if not exists scores_by_replicate as from output_scores limit 0")
        memory.execute("insert into scores_by_replicate from output_scores")
    memory.execute("create or replace temp table output_scores as from scores_by_replicate")


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
    """Probability (0..1) of a false alarm of a rule in a series of interim analyses, each with its own noise.

    rate: with the levels of the series; plain_rate: with the unchanged rule at every analysis. looks: their number.
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
        rate, rate_of_each = (None, None) if self.nominal is None else (self.nominal.rate, self.nominal.each)
        of_models = [{"model": name} | fires.as_json() for name, fires in self.models]
        rule_json = self.rule.as_json() | {"nominal_rate": rate, "nominal_of_each": rate_of_each}
        series = None if self.series is None else asdict(self.series)
        return rule_json | self.gate.as_json() | {"models": of_models, "series": series}


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
        _refuse_undrawn_figures(gate.option, rule)
    with connect_up_to_date(lake) as connection, open_database() as memory:
        side = read_side(connection, lake, run_id)
        noise = read_rows(connection, _NOISE, run_id)
        replicates = split_replicates(connection, memory, side)
        models = [_ModelReplicates(memory, side.rubric, group, replicates) for group in read_rows(memory, _GROUPS)]
        note = unweighted_words(connection, run_id)
        study = study_decisions(connection, run_id, [(model.name, model.lines) for model in models])
    for gate in gates:
        ids = {line.scope_id: None for model in models for line in model.lines if line.scope == CRITERION}
        gate.refuse_unknown_ids({CRITERION: [*ids], CATEGORY: [*scored_category_weights(side.rubric)]})
    rngs = np.random.default_rng(seed).spawn(len(models))
    all_draws = [
        hold_in_draws(parsed, model.drawn_outputs, draw_count, rng) for model, rng in zip(models, rngs, strict=True)
    ]
    series_noise = [] if series is None else _fire_in_series(parsed, models, series, draw_count, seed)
    names = [model.name for model in models]
    compared = adjust_for_comparison([model.rows(len(models)) for model in models])
    return JudgeNoise(
        side.run,
        noise,
        replicates,
        tuple(
            JudgedTwice(name, rows, _usual_diff(draws))
            for name, rows, draws in zip(names, compared, all_draws, strict=True)
        ),
        seed,
        tuple(
            replace(
                _count_fires(gate, rule, index, names, all_draws), series=series_noise[index] if series_noise else None
            )
            for index, (gate, rule) in enumerate(zip(gates, parsed, strict=True))
        ),
        study,
        note,
    )


def study_run(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> DecisionStudy:
    """Variance components and designs of a published run, as `gradebook judge noise` has them.

    connection: to the lake. Raises `InputError` as `measure_noise` does.
    """
    with open_database() as memory:
        side = read_side(connection, lake, run_id)
        replicates = split_replicates(connection, memory, side)
        models = [_ModelReplicates(memory, side.rubric, group, replicates) for group in read_rows(memory, _GROUPS)]
        return study_decisions(connection, run_id, [(model.name, model.lines) for model in models])


def _fire_in_series(
    rules: Sequence[Rule], models: "Sequence[_ModelReplicates]", series: Series, draw_count: int, seed: int
) -> list[SeriesNoise]:
    """False alarms of each rule in a series, by the share of draws in which it fires at the level of each analysis."""
    rates: dict[float, NDArray[np.float64]] = {}
    factors = [series.factor(look) for look in range(1, series.looks + 1)]
    for factor in {1.0, *factors}:
        rngs = np.random.default_rng(seed).spawn(len(models))
        fired = [
            hold_in_draws(rules, model.drawn_outputs, draw_count, rng, factor).is_fired
            for model, rng in zip(models, rngs, strict=True)
        ]
        rates[factor] = np.any(fired, axis=0).mean(axis=1)
    quiet = np.prod([1 - rates[factor] for factor in factors], axis=0)
    plain = 1 - (1 - rates[1.0]) ** series.looks
    return [
        SeriesNoise(series.looks, 1 - quiet_rate, plain_rate)
        for quiet_rate, plain_rate in zip(quiet.tolist(), plain.tolist(), strict=True)
    ]


class _ModelReplicates:
    """One model's outputs by replicate: rows comparing the first two, and scores of all."""

    def __init__(self, memory: duckdb.DuckDBPyConnection, rubric: Rubric, group: Row, replicates: Replicates) -> None:
        self.name = model_name(group)
        later_replicates = range(1, replicates.replicate_count)
        self._sides = [
            pair_sides(memory, RunPair(name_replicate(0), name_replicate(other)), (group, group))
            for other in later_replicates
        ]
        self._rubric = rubric
        self._ids = [criterion.id for criterion in rubric.criteria]
        self._ids += [name for name in self._sides[0].by_criterion if name not in self._ids]
        self._bounds = weigh_pairs(self._sides[0], rubric).bounds  # weights do not depend on the replicate
        self.lines = tuple(self._lines())

    @property
    def drawn_outputs(self) -> DrawnOutputs:
        """Input of the draws."""
        sides, places = self._sides, self._sides[0].overall.places
        positions = np.searchsorted(sides[0].outputs.places, places)
        passed = np.stack([sides[0].outputs.passed_a, *(side.outputs.passed_b for side in sides)], axis=1)[positions]
        passes = ReplicateScores(OVERALL, "", passed, np.arange(places.size), sides[0].overall.cases)
        return DrawnOutputs(places.size, len(sides) + 1, self.lines, passes)

    def rows(self, model_count: int) -> tuple[ComparedRow, ...]:
        """Rows of the first two replicates, as those of a comparison of two runs with so many models."""
        maker = RowMaker(self.name, self.name, 0, test_count=overall_test_count(model_count, len(self._ids)))
        sides = bound_overall(self._sides[0], self._rubric, scaled_weights(self._rubric))
        return (
            maker.overall(sides, self._bounds),
            *maker.categories(sides, self._rubric, self._rubric, self._ids),
            *maker.criteria(sides, self._ids, self._rubric),
        )

    def _lines(self) -> Iterator[ReplicateScores]:
        yield self._line(OVERALL, "", [side.overall for side in self._sides], self._bounds)
        categories = [[*pair_categories(side, self._rubric, self._rubric, self._ids)] for side in self._sides]
        for by_side in zip(*categories, strict=True):
            category, _, bounds = by_side[0]
            yield self._line(CATEGORY, category, [pairs for _, pairs, _ in by_side], bounds)
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
        scores = np.stack([first.scores_a, *(pair.scores_b for pair in pairs)], axis=1)
        outputs = np.searchsorted(self._sides[0].overall.places, first.places)
        return ReplicateScores(scope, scope_id, scores, outputs, first.cases, bounds, is_own)


def _refuse_undrawn_figures(option: str, rule: Rule) -> None:
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
    differences = np.abs(draws.overall_diffs[~np.isnan(draws.overall_diffs)])
    return float(np.quantile(differences, USUAL_SHARE)) if differences.size else None


def _count_fires(
    gate_rule: GateRule, rule: Rule, index: int, names: Sequence[str], all_draws: Sequence[HeldDraws]
) -> RuleNoise:
    """Count the failures of one gate. all_draws: of each model."""
    fired = [draws.is_fired[index] for draws in all_draws]
    unknown = [np.isnan(draws.held[index]) for draws in all_draws]
    models = zip(names, map(_fires, fired, unknown), strict=True)
    gate = _fires(np.any(fired, axis=0), np.any(unknown, axis=0))
    return RuleNoise(gate_rule, nominal_rate(rule), gate, tuple(models))


def _fires(is_fired: NDArray[np.bool_], is_unknown: NDArray[np.bool_]) -> Fires:
    return Fires(int(is_fired.sum()), int(is_unknown.sum()), is_fired.size)
