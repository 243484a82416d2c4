"""Comparison of two runs, or of two models of one run, by case, on criteria with the same text in both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.rubric import Rubric, scored_category_weights
from gradebook.rubrics.statistics.comparison import CorrectedFigures, WinFigures, measure_wins
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL
from gradebook.tasks.agreement.rankings import tie_margin
from gradebook.tasks.comparing.attribution import Explanation, WeightedPairs, explain, scaled_weights, weigh_pairs
from gradebook.tasks.comparing.case_pairs import PairedSides, bound_overall, pair_sides
from gradebook.tasks.comparing.corrected import Corrected, corrected_differences
from gradebook.tasks.comparing.figures import ComparedRow, RowMaker, adjust_for_comparison
from gradebook.tasks.comparing.gate import GateFinding, GateRule, evaluate_gate
from gradebook.tasks.comparing.judges import refuse_judges
from gradebook.tasks.comparing.model_pairs import (
    Groups,
    Side,
    Wanted,
    describe_difference,
    find_wanted,
    has_stopped,
    is_one_version,
    judges_apart,
    looks_factor,
    pair_groups,
    read_side,
    same_criteria,
)
from gradebook.tasks.comparing.unpaired import BANNER as UNPAIRED
from gradebook.tasks.comparing.unpaired import compare_unpaired
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, pair_name

RESAMPLE_COUNT = 10_000
STRATA = (
    "signed ranks, McNemar's test, the interval of sd_ratio and corrections by ratings: the cases were drawn by "
    "stratum, so means, shares and their intervals are weighted, and these are not known"
)
OTHER_STRATA = (
    "by the strata of run A: the runs drew their cases by different strata or rates, and those of run B count"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a comparison. models: of A and B, None to find them. gate: of `--require` and `--fail-if`.

    shares_at: scores t to report P(score <= t) for. across_judges: apply the gate even if the judges differ.
    chosen_from: number of runs among which run A was chosen for its scores, or the factor of a series of looks.
    is_unpaired: compare the means of all outputs, whatever their cases. is_corrected: correct the differences by the
    lake's ratings; both runs are published.
    """

    models: tuple[str | None, str | None] = (None, None)
    gate: GateRule | None = None
    resample_count: int = RESAMPLE_COUNT
    shares_at: tuple[float, ...] = ()
    across_judges: bool = False
    chosen_from: float = 1
    is_unpaired: bool = False
    is_corrected: bool = False


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
    judges: how the judges differ, if they do.
    """

    run_a: Row
    run_b: Row
    banner: str | None
    models: tuple[ModelComparison, ...]
    not_compared: tuple[str, ...]
    gate: GateFinding | None
    judges: str | None = None

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
            "regressions": [_named(row) | {"scope": row.scope, "id": row.scope_id} for row in self.regressions],
            "overall": [pair.overall.as_json() for pair in self.models if pair.overall is not None],
            "categories": [row.as_json() for pair in self.models for row in pair.categories],
            "criteria": [row.as_json() for pair in self.models for row in pair.criteria],
            "decomposition": [_named(pair) | part for pair, found in explained for part in found.parts_as_json()],
            "distributions": [_named(pair) | found.distribution_as_json() for pair, found in explained],
            "lost_most": [_named(pair) | case for pair, found in explained for case in found.lost_as_json()],
            "not_compared": list(self.not_compared),
            "gate": None if self.gate is None else self.gate.as_json(),
        }


def compare_runs(lake: Lake, run_a: str, run_b: str | None = None, asked: Asked | None = None) -> Comparison:
    """Compare two published runs, or two models of one run.

    Raises `InputError` for an unknown run or model, nothing to pair, an invalid rule, or a rule across judges.
    """
    asked = asked or Asked()
    if asked.gate is not None:
        asked.gate.parse()  # an invalid rule is found before any computation
    with connect_up_to_date(lake, is_pinned=True) as connection:
        a = read_side(connection, lake, run_a)
        b = a if run_b is None else read_side(connection, lake, run_b)
        if asked.gate is not None and not asked.across_judges:
            refuse_judges(judges_apart(a, b), asked.gate.option)
        wanted = find_wanted(connection, run_a, run_b, asked.models)
        return compare_sides(connection, wanted, a, b, replace(asked, is_corrected=True))


def compare_sides(connection: duckdb.DuckDBPyConnection, wanted: Wanted, a: Side, b: Side, asked: Asked) -> Comparison:
    """Compare two sides over the tables of a connection. Raises as `compare_runs`."""
    comparer = _Comparer(connection, wanted, a, b, asked)
    if asked.gate is not None:
        comparer.refuse_unknown_ids(asked.gate)
    groups, alone = pair_groups(connection, wanted)
    models = _adjusted([comparer.compare(pair) for pair in groups])
    left_out = tuple(dict.fromkeys(comparer.left_out))
    compared_ids = {*comparer.same_ids} | {row.scope_id for pair in models for row in pair.criteria if row.is_compared}
    named = [(pair.name, pair.rows) for pair in models]
    described = describe_difference(a, b, len(compared_ids))
    if asked.shares_at and not comparer.is_one_version:
        left_out = (*left_out, "--share-at: the rubrics differ, so there are no overall scores")
    return Comparison(
        run_a=a.run,
        run_b=b.run,
        banner=" ".join(filter(None, (described, UNPAIRED if asked.is_unpaired else None))) or None,
        models=models,
        not_compared=(*comparer.other_criteria, *alone, *left_out),
        gate=None if asked.gate is None else evaluate_gate(asked.gate, named, alone),
        judges=judges_apart(a, b),
    )


def ratings_and_wins(
    connection: duckdb.DuckDBPyConnection, wanted: Wanted, a: Side, b: Side
) -> dict[tuple[str, str], tuple[CorrectedFigures | None, WinFigures | None]]:
    """Figures of the overall score that change after a comparison was published, by the models' names; {} if there is
    no overall score.
    """
    comparer = _Comparer(connection, wanted, a, b, Asked(is_corrected=True))
    return comparer.ratings_and_wins(pair_groups(connection, wanted)[0])


def _adjusted(models: Sequence[ModelComparison]) -> tuple[ModelComparison, ...]:
    """Comparisons with p adjusted for all of them together."""
    found = []
    for pair, rows in zip(models, adjust_for_comparison([pair.rows for pair in models]), strict=True):
        of_scope = {scope: tuple(row for row in rows if row.scope == scope) for scope in (CATEGORY, CRITERION)}
        overall = next((row for row in rows if row.scope == OVERALL), None)
        found.append(replace(pair, overall=overall, categories=of_scope[CATEGORY], criteria=of_scope[CRITERION]))
    return tuple(found)


class _Comparer:
    """Comparer of model pairs of two runs; left_out: descriptions of outputs and figures that are not compared."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, wanted: Wanted, a: Side, b: Side, asked: Asked) -> None:
        self._connection, self._wanted, self._asked = connection, wanted, asked
        self._factor = max(asked.chosen_from, looks_factor(a, b))
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

    def compare(self, groups: Groups) -> ModelComparison:
        if self._asked.is_unpaired:
            names = model_name(groups[0]), model_name(groups[1])
            found, rows = compare_unpaired(self._connection, self._wanted, groups, self._new, self.same_ids)
            return ModelComparison(groups, *names, found if self.is_one_version else None, rows, (), None)
        sides = pair_sides(self._connection, self._wanted, groups)
        sides = bound_overall(sides, self._new, scaled_weights(self._new))
        names = model_name(groups[0]), model_name(groups[1])
        maker = RowMaker(*names, self._asked.resample_count, self._factor)
        self.left_out += _uncompared_outputs(
            pair_name(*names), sides, is_one_version=self.is_one_version, is_stopped=self._is_stopped
        )
        self.left_out += [STRATA] if sides.strata is not None else []
        self.left_out += [OTHER_STRATA] if sides.are_other_strata else []
        overall = explanation = None
        corrected: Corrected = {}
        if self.is_one_version:
            weighted = weigh_pairs(sides, self._new)
            overall = maker.overall(sides, weighted.bounds)
            corrected = {} if sides.strata is not None else self._corrected(groups)
            overall = replace(overall, corrected=corrected.get((OVERALL, "")), wins=self._wins(weighted))
            explanation = explain(self._connection, sides, weighted, self._new, self._asked.shares_at)
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
        )

    def ratings_and_wins(
        self, pairs: Sequence[Groups]
    ) -> dict[tuple[str, str], tuple[CorrectedFigures | None, WinFigures | None]]:
        found = {}
        for groups in pairs if self.is_one_version else ():
            weighted = weigh_pairs(pair_sides(self._connection, self._wanted, groups), self._new)
            names = model_name(groups[0]), model_name(groups[1])
            found[names] = self._corrected(groups).get((OVERALL, "")), self._wins(weighted)
        return found

    def _wins(self, pairs: WeightedPairs) -> WinFigures | None:
        if not self._asked.is_corrected:
            return None
        margin = tie_margin(self._connection, self._wanted.run_a, self._wanted.run_b)
        return measure_wins(pairs.scores_b - pairs.scores_a, pairs.cases, margin, pairs.strata)

    def _corrected(self, groups: Groups) -> Corrected:
        if not self._asked.is_corrected or self._own_ids:  # a score of per-case criteria has other weights
            return {}
        runs = self._wanted.run_a, self._wanted.run_b
        return corrected_differences(self._connection, runs, groups, self._new, self.same_ids)

    def _read_own_ids(self) -> list[str]:
        """Ids of per-case criteria, except those that are also a criterion of a rubric."""
        found = self._connection.execute(
            "select distinct criterion_id from case_criteria where run_id in (?, ?) order by criterion_id",
            [self._wanted.run_a, self._wanted.run_b],
        ).fetchall()
        known = {*_ids(self._old), *_ids(self._new)}
        return [criterion_id for (criterion_id,) in found if criterion_id not in known]


def _uncompared_outputs(names: str, sides: PairedSides, *, is_one_version: bool, is_stopped: bool) -> Iterator[str]:
    """Descriptions of outputs that are not compared. is_stopped: what one side lacks was not needed."""
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


def _named(pair: ModelComparison | ComparedRow) -> dict[str, Any]:
    return {"model_a": pair.model_a, "model_b": pair.model_b}
