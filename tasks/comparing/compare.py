"""Comparison of two runs, or of two models of one run, by case, on criteria with the same text in both.

Beside the differences by case: differences corrected by people's ratings, and means over different cases where the
outputs have no counterpart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric, effective_weights, scored_category_weights
from gradebook.rubrics.model.scores import OVERALL_DIGITS
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.calibration import LEAST_RATED_CASES, CorrectedSum, Rated, Scored, corrected_sum
from gradebook.rubrics.statistics.comparison import (
    CorrectedFigures,
    OpenFigures,
    PairFigures,
    WinFigures,
    measure_unpaired,
    measure_wins,
)
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.agreement.calibration import read_judged, samples_of
from gradebook.tasks.agreement.preferences import tie_margin
from gradebook.tasks.comparing.attribution import Explanation, WeightedPairs, explain, scaled_weights, weigh_pairs
from gradebook.tasks.comparing.case_pairs import PairCounts, PairedSides, add_outputs, bound_overall, pair_sides
from gradebook.tasks.comparing.figures import (
    ComparedRow,
    RowMaker,
    adjust_for_comparison,
    adjust_rows,
    difference_bounds,
    overall_row,
    overall_test_count,
)
from gradebook.tasks.comparing.gate import GateFinding, GateRule, PairRows, evaluate_gate
from gradebook.tasks.comparing.second_opinion import SecondOpinion, give_second_opinion
from gradebook.tasks.comparing.sides import (
    Groups,
    RunPair,
    Side,
    changed_cases,
    describe_difference,
    has_stopped,
    interim_factor,
    is_one_version,
    judge_difference,
    no_overall_words,
    pair_groups,
    read_side,
    refuse_judges,
    resolve_run_pair,
    same_criteria,
)
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, pair_name, read_rows
from gradebook.tasks.lake.sql import query

Corrected = Mapping[tuple[str, str], CorrectedFigures]  # by scope and scope_id


@dataclass(frozen=True, slots=True)
class _Model:
    """One model of a run. parts: scores by criterion id; faults: why a criterion can't be corrected."""

    parts: dict[str, Rated | Scored] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def rated_ids(self) -> list[str]:
        return [name for name, part in self.parts.items() if isinstance(part, Rated)]


def corrected_differences(
    connection: duckdb.DuckDBPyConnection, run_ids: tuple[str, str], groups: Groups, rubric: Rubric, ids: Sequence[str]
) -> Corrected:
    """Corrected differences of the overall score and of these criteria; empty if nobody rated an output of both runs.

    connection: to the lake. rubric: of both runs. There is none if outputs of a model have no overall score: what the
    judge refuses is no random part of them.
    """
    if not connection.execute("select 1 from ratings limit 1").fetchall():
        return {}
    tables = [
        connection.execute(
            query("comparing/complete_scores"), {"run_id": run_id} | _group_columns(group)
        ).to_arrow_table()
        for run_id, group in zip(run_ids, groups, strict=True)
    ]
    cases = sorted(set(tables[0].column("shared").to_pylist()) | set(tables[1].column("shared").to_pylist()))
    codes = {name: code for code, name in enumerate(cases)}
    sides = [
        _read_model(connection, run_id, group, table, codes)
        for run_id, group, table in zip(run_ids, groups, tables, strict=True)
    ]
    if not all(side.rated_ids for side in sides):
        return {}
    corrected: dict[tuple[str, str], CorrectedFigures] = {}
    for name in ids:
        if any(name in side.rated_ids for side in sides):
            corrected[CRITERION, name] = _corrected_difference(sides, {name: 1.0}, DIFFERENCES, len(codes))
    weights = {name: weight for name, weight in effective_weights(rubric).items() if weight}
    base = sum(max(weight, 0.0) for weight in weights.values())
    if base:
        shares = {name: weight / base for name, weight in weights.items()}
        corrected[OVERALL, ""] = _corrected_difference(sides, shares, difference_bounds(shares.values()), len(codes))
    return corrected


def corrected_means(connection: duckdb.DuckDBPyConnection, run_id: str, rubric: Rubric) -> dict[str, CorrectedSum]:
    """Corrected overall means by model with its checkpoint, of models whose judged criteria are all rated.

    connection: to the lake. Empty for a rubric with penalties, whose scores may be cut at 0, and for a run with
    per-case criteria, whose outputs have weights of their own.
    """
    weights = {name: weight for name, weight in effective_weights(rubric).items() if weight}
    case_criteria = connection.execute("select 1 from case_criteria where run_id = ? limit 1", [run_id]).fetchall()
    if case_criteria or not weights or min(weights.values()) < 0.0:
        return {}
    means = {}
    models = "select distinct model, checkpoint from run_scores where run_id = ?"
    for group in read_rows(connection, models, run_id):
        table = connection.execute(query("comparing/complete_scores"), {"run_id": run_id} | _group_columns(group))
        complete = table.to_arrow_table()
        codes = {name: code for code, name in enumerate(sorted(set(complete.column("shared").to_pylist())))}
        side = _read_model(connection, run_id, group, complete, codes)
        if side.rated_ids and set(weights) <= side.parts.keys():
            weighted_parts = [(weight / sum(weights.values()), side.parts[name]) for name, weight in weights.items()]
            means[model_name(group)] = corrected_sum(weighted_parts, len(codes))
    return means


def _group_columns(group: Row) -> Row:
    return {"model": group["model"], "checkpoint": group["checkpoint"]}


def _read_model(
    connection: duckdb.DuckDBPyConnection, run_id: str, group: Row, complete: pa.Table, codes: Mapping[str, int]
) -> _Model:
    judged = read_judged(connection, run_id)
    is_own = pc.and_(
        pc.is_in(judged.table.column("output_id"), pc.unique(complete.column("output_id"))),
        pc.equal(judged.table.column("model"), group["model"]),
    )
    model = _Model()
    unscored = "select count(*) from output_scores where run_id = ? and model = ? and checkpoint is not distinct from ?"
    values = [run_id, group["model"], group["checkpoint"]]
    ((unscored_count,),) = connection.execute(f"{unscored} and score is null", values).fetchall()
    output_count = pc.count_distinct(complete.column("output_id")).as_py()
    for sample in samples_of(connection, judged.where(is_own), codes):
        if sample.checkpoint != group["checkpoint"]:
            continue
        if not sample.rated.n:
            model.faults[sample.criterion_id] = sample.left_out or "nobody rated it"
        elif sample.selection is not None:
            model.faults[sample.criterion_id] = sample.selection
        elif unscored_count or sample.rated.total != output_count:
            model.faults[sample.criterion_id] = "the judge did not score all outputs"
        else:
            model.parts[sample.criterion_id] = sample.rated
    for name in pc.unique(complete.column("criterion_id")).to_pylist():
        rows = complete.filter(pc.equal(complete.column("criterion_id"), name))
        if name in model.parts or name in model.faults:
            continue
        if "judge" in rows.column("method").to_pylist():
            model.faults[name] = "nobody rated it"
            continue
        scored_rows = rows.filter(rows.column("score").is_valid())
        cases = np.array([codes[shared] for shared in scored_rows.column("shared").to_pylist()], dtype=np.int64)
        if scored_rows.num_rows == output_count:
            model.parts[name] = Scored(scored_rows.column("score").to_numpy(), cases)
        else:
            model.faults[name] = "some outputs have no score"
    return model


def _corrected_difference(
    sides: Sequence[_Model], weights: Mapping[str, float], bounds: Interval, case_count: int
) -> CorrectedFigures:
    reasons = [
        f"{name} of {letter}: {side.faults.get(name, 'no scores')}"
        for letter, side in zip("AB", sides, strict=True)
        for name in weights
        if name not in side.parts
    ]
    if reasons:
        return CorrectedFigures(corrected_reason="; ".join(reasons))
    of_a, of_b = (
        corrected_sum([(weight, side.parts[name]) for name, weight in weights.items()], case_count) for side in sides
    )
    difference = of_b.minus(of_a)
    interval = difference.interval(bounds)
    rated_count = counted(difference.fewest_rated, "rated case")
    reason = None if interval else f"found {rated_count}, expected {LEAST_RATED_CASES} or more for an interval"
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return CorrectedFigures(of_a.value, of_b.value, difference.value, low, high, reason)


RESAMPLE_COUNT = 10_000
STRATA = (
    "signed ranks, McNemar's test, the interval of sd_ratio and corrections by ratings: the cases were drawn by "
    "stratum, so means, shares and their intervals are weighted, and these are not known"
)
UNEVEN = (
    "corrections by ratings, which count pairs: cases have unlike numbers of pairs and count once each in means, "
    "shares and their intervals; signed ranks and McNemar's test count pairs too; `weights: outputs` of the rubric "
    "counts each pair everywhere"
)
OTHER_STRATA = (
    "by the strata of run A: the runs drew their cases by different strata or rates, and those of run B count"
)


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """Options of a comparison. models: of A and B, None to find them. gate: of `--require` and `--fail-if`.

    shares_at: scores t to report P(score <= t) for. across_judges: apply the gate even if the judges differ.
    chosen_from: number of runs among which run A was chosen for its scores, or the factor of a series of looks.
    is_unpaired: compare the means of all outputs, whatever their cases. is_corrected: correct the differences by the
    lake's ratings; both runs are published. has_second_opinion: also draw the criteria together, see `second_opinion`.
    """

    models: tuple[str | None, str | None] = (None, None)
    gate: GateRule | None = None
    resample_count: int = RESAMPLE_COUNT
    shares_at: tuple[float, ...] = ()
    across_judges: bool = False
    chosen_from: float = 1
    is_unpaired: bool = False
    is_corrected: bool = False
    has_second_opinion: bool = False
    needs_all_models: bool = False


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Comparison of two models. groups: model and checkpoint of A, and of B.

    overall, explanation: None if the rubrics differ. criteria: in the rubric's order, then per-case criteria.
    """

    groups: Groups
    model_a: str
    model_b: str
    overall: ComparedRow | None
    criteria: tuple[ComparedRow, ...]
    categories: tuple[ComparedRow, ...]
    explanation: Explanation | None
    second_opinion: SecondOpinion | None = None

    @property
    def rows(self) -> tuple[ComparedRow, ...]:
        """All rows: overall, categories, criteria."""
        return (*(() if self.overall is None else (self.overall,)), *self.categories, *self.criteria)

    @property
    def name(self) -> str:
        """Model, or both if they differ."""
        return pair_name(self.model_a, self.model_b)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two sides, one pair of models after the other.

    not_compared: criteria, models and outputs without a counterpart, with reasons. gate: None without a rule.
    judges: how the judges differ, if they do. cases: how many cases of the same id differ, and in what.
    """

    run_a: Row
    run_b: Row
    banner: str | None
    models: tuple[ModelComparison, ...]
    not_compared: tuple[str, ...]
    gate: GateFinding | None
    judges: str | None = None
    cases: str | None = None

    @property
    def regressions(self) -> tuple[ComparedRow, ...]:
        """Rows in which B is worse beyond chance."""
        return tuple(row for model in self.models for row in model.rows if row.is_regression)

    def as_json(self) -> dict[str, Any]:
        explained = [(pair, pair.explanation) for pair in self.models if pair.explanation is not None]
        return {
            "run_a": self.run_a,
            "run_b": self.run_b,
            "banner": self.banner,
            "judges": self.judges,
            "regressions": [_model_names(row) | {"scope": row.scope, "id": row.scope_id} for row in self.regressions],
            "overall": [pair.overall.as_json() for pair in self.models if pair.overall is not None],
            "categories": [row.as_json() for pair in self.models for row in pair.categories],
            "criteria": [row.as_json() for pair in self.models for row in pair.criteria],
            "decomposition": [
                _model_names(pair) | part for pair, explanation in explained for part in explanation.parts_as_json()
            ],
            "distributions": [
                _model_names(pair) | explanation.distribution_as_json() for pair, explanation in explained
            ],
            "lost_most": [
                _model_names(pair) | case for pair, explanation in explained for case in explanation.lost_as_json()
            ],
            "second_opinions": [
                _model_names(pair) | pair.second_opinion.as_json()
                for pair in self.models
                if pair.second_opinion is not None
            ],
            "not_compared": list(self.not_compared),
            "gate": None if self.gate is None else self.gate.as_json(),
        }


def compare_runs(
    lake: Lake, run_a: str, run_b: str | None = None, options: ComparisonOptions | None = None
) -> Comparison:
    """Compare two published runs, or two models of one run.

    Raises `InputError` for an unknown run or model, nothing to pair, an invalid rule, or a rule across judges.
    """
    options = options or ComparisonOptions()
    if options.gate is not None:
        options.gate.parse()  # an invalid rule is found before any computation
    with connect_up_to_date(lake, is_pinned=True) as connection:
        a = read_side(connection, lake, run_a)
        b = a if run_b is None else read_side(connection, lake, run_b)
        if options.gate is not None and not options.across_judges:
            refuse_judges(judge_difference(a, b), options.gate.option)
        wanted = resolve_run_pair(connection, run_a, run_b, options.models)
        return compare_sides(connection, wanted, a, b, replace(options, is_corrected=True))


def compare_sides(
    connection: duckdb.DuckDBPyConnection, wanted: RunPair, a: Side, b: Side, options: ComparisonOptions
) -> Comparison:
    """Compare two sides over the tables of a connection. Raises as `compare_runs`."""
    comparer = _Comparer(connection, wanted, a, b, options)
    if options.gate is not None:
        comparer.refuse_unknown_ids(options.gate)
    groups, alone = pair_groups(connection, wanted)
    models = _with_adjusted_p([comparer.compare(pair, len(groups)) for pair in groups])
    left_out = tuple(dict.fromkeys(comparer.left_out))
    compared_ids = {*comparer.same_ids} | {row.scope_id for pair in models for row in pair.criteria if row.is_compared}
    pair_rows = [PairRows(pair.name, pair.model_b, pair.rows) for pair in models]
    cases = changed_cases(connection, a.run["run_id"], b.run["run_id"])
    described = describe_difference(a, b, len(compared_ids), cases)
    if options.shares_at and not comparer.is_one_version:
        left_out = (*left_out, "--share-at: the rubrics differ, so there are no overall scores")
    return Comparison(
        run_a=a.run,
        run_b=b.run,
        banner=" ".join(filter(None, (described, BANNERS[b.rubric.weights] if options.is_unpaired else None))) or None,
        models=models,
        not_compared=(*comparer.other_criteria, *alone, *left_out),
        gate=_gate_finding(options, pair_rows, alone, no_overall_words(a, b)),
        cases=cases,
        judges=judge_difference(a, b),
    )


def _gate_finding(
    options: ComparisonOptions,
    models: Sequence[PairRows],
    alone: Sequence[str],
    no_overall: str | None,
) -> GateFinding | None:
    if options.gate is None:
        return None
    return evaluate_gate(options.gate, models, alone, needs_all=options.needs_all_models, no_overall=no_overall)


def ratings_and_wins(
    connection: duckdb.DuckDBPyConnection, wanted: RunPair, a: Side, b: Side
) -> dict[tuple[str, str], tuple[CorrectedFigures | None, WinFigures | None]]:
    """Figures of the overall score that change after a comparison was published, by the models' names; {} if there is
    no overall score.
    """
    comparer = _Comparer(connection, wanted, a, b, ComparisonOptions(is_corrected=True))
    return comparer.ratings_and_wins(pair_groups(connection, wanted)[0])


def _with_adjusted_p(models: Sequence[ModelComparison]) -> tuple[ModelComparison, ...]:
    """Comparisons with p adjusted for all of them together."""
    adjusted = []
    for pair, rows in zip(models, adjust_for_comparison([pair.rows for pair in models]), strict=True):
        of_scope = {scope: tuple(row for row in rows if row.scope == scope) for scope in (CATEGORY, CRITERION)}
        overall = overall_row(rows)
        adjusted.append(replace(pair, overall=overall, categories=of_scope[CATEGORY], criteria=of_scope[CRITERION]))
    return tuple(adjusted)


class _Comparer:
    """Comparer of model pairs of two runs; left_out: descriptions of outputs and figures that are not compared."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, wanted: RunPair, a: Side, b: Side, options: ComparisonOptions
    ) -> None:
        self._connection, self._wanted, self._options = connection, wanted, options
        self._factor = max(options.chosen_from, interim_factor(a, b))
        self._is_stopped = has_stopped(a) or has_stopped(b)
        self._old, self._new = a.rubric, b.rubric
        self.same_ids, self.other_criteria = same_criteria(a.rubric, b.rubric)
        self.is_one_version = is_one_version(a, b)
        self._own_ids = self._read_own_ids()
        self.left_out: list[str] = []

    def refuse_unknown_ids(self, gate: GateRule) -> None:
        """Raise `InputError` if a rule names criteria or categories that can't be compared."""
        categories = [*scored_category_weights(self._new)]
        gate.refuse_unknown_ids({CRITERION: [*self.same_ids, *self._own_ids], CATEGORY: categories})

    def compare(self, groups: Groups, pair_count: int) -> ModelComparison:
        """Compare one of so many pairs of models."""
        if self._options.is_unpaired:
            names = model_name(groups[0]), model_name(groups[1])
            unpaired_row, rows = compare_unpaired(self._connection, self._wanted, groups, self._new, self.same_ids)
            return ModelComparison(groups, *names, unpaired_row if self.is_one_version else None, rows, (), None)
        sides = pair_sides(self._connection, self._wanted, groups, self._new.weights)
        sides = bound_overall(sides, self._new, scaled_weights(self._new))
        names = model_name(groups[0]), model_name(groups[1])
        test_count = overall_test_count(pair_count, len(self.same_ids) + len(self._own_ids))
        maker = RowMaker(*names, self._options.resample_count, self._factor, test_count)
        self.left_out += _uncompared_outputs(
            pair_name(*names), sides, is_one_version=self.is_one_version, is_stopped=self._is_stopped
        )
        self.left_out += [] if sides.strata is None else [STRATA]
        self.left_out += [] if sides.uneven_cases is None or sides.strata is not None else [UNEVEN]
        self.left_out += [OTHER_STRATA] if sides.are_other_strata else []
        overall = explanation = None
        corrected: Corrected = {}
        if self.is_one_version:
            weighted = weigh_pairs(sides, self._new)
            overall = maker.overall(sides, weighted.bounds)
            corrected = {} if sides.is_weighted else self._corrected(groups)
            overall = replace(overall, corrected=corrected.get((OVERALL, "")), wins=self._wins(weighted))
            explanation = explain(self._connection, sides, weighted, self._new, self._options.shares_at)
        return ModelComparison(
            groups,
            *names,
            overall,
            tuple(
                replace(row, corrected=corrected.get((CRITERION, row.scope_id)))
                for row in maker.criteria(sides, [*self.same_ids, *self._own_ids], self._new)
            ),
            maker.categories(sides, self._old, self._new, self.same_ids),
            explanation,
            give_second_opinion(sides, self.same_ids) if self._options.has_second_opinion else None,
        )

    def ratings_and_wins(
        self, pairs: Sequence[Groups]
    ) -> dict[tuple[str, str], tuple[CorrectedFigures | None, WinFigures | None]]:
        figures = {}
        for groups in pairs if self.is_one_version else ():
            sides = pair_sides(self._connection, self._wanted, groups, self._new.weights)
            weighted = weigh_pairs(sides, self._new)
            names = model_name(groups[0]), model_name(groups[1])
            figures[names] = self._corrected(groups).get((OVERALL, "")), self._wins(weighted)
        return figures

    def _wins(self, pairs: WeightedPairs) -> WinFigures | None:
        if not self._options.is_corrected:
            return None
        margin = tie_margin(self._connection, self._wanted.run_a, self._wanted.run_b)
        return measure_wins(pairs.scores_b - pairs.scores_a, pairs.cases, margin, pairs.strata)

    def _corrected(self, groups: Groups) -> Corrected:
        if not self._options.is_corrected or self._own_ids:  # a score of per-case criteria has other weights
            return {}
        runs = self._wanted.run_a, self._wanted.run_b
        return corrected_differences(self._connection, runs, groups, self._new, self.same_ids)

    def _read_own_ids(self) -> list[str]:
        """Ids of per-case criteria, except those that are also a criterion of a rubric."""
        rows = self._connection.execute(
            "select distinct criterion_id from case_criteria where run_id in (?, ?) order by criterion_id",
            [self._wanted.run_a, self._wanted.run_b],
        ).fetchall()
        rubric_ids = {*_ids(self._old), *_ids(self._new)}
        return [criterion_id for (criterion_id,) in rows if criterion_id not in rubric_ids]


def _uncompared_outputs(names: str, sides: PairedSides, *, is_one_version: bool, is_stopped: bool) -> Iterator[str]:
    """Descriptions of outputs that are not compared. is_stopped: a run stopped early, so it may lack cases."""
    counts = sides.overall.counts
    alone_count = counts.unpaired_count - counts.held_otherwise_count
    if alone_count and not is_stopped:
        outputs = counted(alone_count, "output")
        more = "" if sides.strata is not None else "; `compare --unpaired` takes all"  # it refuses strata
        yield f"{names}: {outputs} of cases or samples that only one side has{more}"
    if is_one_version and counts.held_otherwise_count:
        cases = counted(counts.held_otherwise_count // 2, "case")  # both outputs of a case are counted
        yield f"{names}: the overall score of {cases}, scored on other criteria in run A than in run B"
    if counts.ambiguous_count:
        outputs = counted(counts.ambiguous_count, "output")
        yield f"{names}: {outputs}, as a run has several of one case and sample_index"


def _ids(rubric: Rubric) -> Sequence[str]:
    return [criterion.id for criterion in rubric.criteria]


def _model_names(pair: ModelComparison | ComparedRow) -> dict[str, Any]:
    return {"model_a": pair.model_a, "model_b": pair.model_b}


BANNERS = {  # by `weights` of the rubric
    weights: (
        f"unpaired: B - A is of all outputs, each {unit} counted once, whatever cases a side has. Cases that are "
        "harder on one side count as a difference of the models. p and the interval allow for what either side alone "
        "can't show."
    )
    for weights, unit in (("cases", "case"), ("outputs", "output"))
}


def compare_unpaired(
    connection: duckdb.DuckDBPyConnection, wanted: RunPair, groups: Groups, rubric: Rubric, ids: Sequence[str]
) -> tuple[ComparedRow, tuple[ComparedRow, ...]]:
    """The row of the overall score, and those of the criteria with these ids, in order."""
    runs = {"run_a": wanted.run_a, "run_b": wanted.run_b}
    add_outputs(connection, wanted, groups)
    if connection.execute("select 1 from compared_outputs where inclusion_rate is not null limit 1").fetchall():
        expected = "runs whose cases count the same, or a comparison by case, without --unpaired"
        raise InputError("--unpaired", "a run whose cases were drawn by stratum", expected)
    table = connection.execute(query("comparing/unpaired_scores"), runs).to_arrow_table()
    criteria, sides = (table.column(name).to_numpy() for name in ("criterion_id", "side"))
    clusters, cases = (table.column(name).to_numpy() for name in ("case_number", "own_case_number"))
    # As overall scores are.
    scores, lows, highs = (np.round(table.column(name).to_numpy(), OVERALL_DIGITS) for name in ("score", "low", "high"))
    names = model_name(groups[0]), model_name(groups[1])

    def means_of(scores: Floats, is_in: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
        """Scores of some rows and their clusters; of cases with unlike numbers of outputs, the mean of each case."""
        _, firsts, codes = np.unique(cases[is_in], return_index=True, return_inverse=True)
        counts = np.bincount(codes)
        if rubric.weights == "outputs" or not counts.size or counts.min() == counts.max():
            return scores[is_in], clusters[is_in]
        return np.bincount(codes, scores[is_in]) / counts, clusters[is_in][firsts]

    def row(scope: str, scope_id: str, bounds: Interval) -> ComparedRow:
        is_own = criteria == scope_id

        def measure(scores_a: Floats, scores_b: Floats) -> PairFigures:
            of_a, of_b = (
                is_own & (sides == side) & ~np.isnan(side_scores)
                for side, side_scores in zip("ab", (scores_a, scores_b), strict=True)
            )
            values_a, clusters_a = means_of(scores_a, of_a)
            values_b, clusters_b = means_of(scores_b, of_b)
            figures = measure_unpaired(values_a, values_b, clusters_a, clusters_b, bounds=bounds)
            return replace(figures, n=int(of_a.sum() + of_b.sum()))

        figures = measure(scores, scores)
        is_missing = is_own & np.isnan(scores) & ~np.isnan(lows)
        missing = [int((is_missing & (sides == side)).sum()) for side in "ab"]
        left_open = None
        if any(missing):
            least, most = measure(highs, lows), measure(lows, highs)
            ends = (least.mean_diff, most.mean_diff, least.diff_low, most.diff_high, least.p, most.p)
            left_open = OpenFigures(None, *ends)
        counts = PairCounts(0, 0, 0, int((is_own & np.isnan(scores)).sum()), *missing)
        of_rubric = {criterion.id: criterion for criterion in rubric.criteria}.get(scope_id)
        category = None if of_rubric is None else of_rubric.category
        is_penalty = of_rubric is not None and of_rubric.own_weight < 0
        row = ComparedRow(*names, scope, scope_id, category, counts, figures, is_penalty=is_penalty, is_paired=False)
        return replace(row, open_figures=left_open)

    weights = [*effective_weights(rubric).values()]
    base = sum(max(weight, 0.0) for weight in weights) or 1.0
    overall = row(OVERALL, "", difference_bounds(weight / base for weight in weights))
    return overall, adjust_rows([row(CRITERION, criterion_id, DIFFERENCES) for criterion_id in ids])
