"""Pairing of outputs by case, and the scores of each pair as arrays."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.statistics.means import TIED
from gradebook.rubrics.statistics.strata import Strata, count_cases_once, share_weights
from gradebook.tasks.comparing.sides import Groups, RunPair
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

PART_ROWS = 1_000_000  # verdicts paired at once: memory beyond the scores does not grow with the run


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Counts of outputs and pairs of a criterion, or of the overall score.

    n and unscored_count count pairs of two outputs each; unpaired_count and ambiguous_count count outputs. Ambiguous:
    a side has several outputs of that case and sample_index. held_otherwise_count: unpaired outputs whose partner has
    other per-case criteria, or none. missing_a_count, missing_b_count: pairs whose output lacks a score that it is
    owed, by side; a criterion that does not apply owes none. unchanged_count: pairs with the same output and the same
    score on both sides. The last three are None in rows of earlier versions.
    """

    unpaired_count: int
    held_otherwise_count: int
    ambiguous_count: int
    unscored_count: int
    missing_a_count: int | None = None
    missing_b_count: int | None = None
    unchanged_count: int | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """Lowest and highest possible scores of each pair's outputs; all (pair,), the score where it is known."""

    low_a: Floats
    high_a: Floats
    low_b: Floats
    high_b: Floats


@dataclass(frozen=True, slots=True)
class ScorePairs:
    """Pairs of one criterion; all arrays (pair,), ordered by place.

    places: number of the pair within the comparison. cases: number of its case, or of its named cluster.
    scores_a, scores_b: NaN if unscored. own_weights: NaN if the criterion is the rubric's. missing_a, missing_b:
    whether a score is owed and missing; None if none is. of_missing: possible overall scores, or those of a category,
    where any is missing; None: 0 to 1. Arrays may be shared by several criteria: do not write to them.
    """

    counts: PairCounts
    places: Integers
    cases: Integers
    scores_a: Floats
    scores_b: Floats
    own_weights: Floats
    missing_a: Bools | None = None
    missing_b: Bools | None = None
    of_missing: Ends | None = None

    @property
    def is_scored(self) -> Bools:
        """Mask of the pairs with a score on both sides."""
        return ~(np.isnan(self.scores_a) | np.isnan(self.scores_b))

    @property
    def ends(self) -> Ends:
        """Possible scores; NaN where a score is neither known nor owed."""
        if self.of_missing is not None:
            return self.of_missing
        ends = []
        for scores, missing in ((self.scores_a, self.missing_a), (self.scores_b, self.missing_b)):
            ends += [scores if missing is None else np.where(missing, end, scores) for end in (0.0, 1.0)]
        return Ends(*ends)

    @property
    def is_equal(self) -> Bools:
        """Mask of the pairs with equal scores, or with none on either side."""
        is_equal = _are_equal(self.scores_a, self.scores_b)
        if self.missing_a is not None or self.missing_b is not None:
            ends = self.ends
            is_equal &= _are_equal(ends.low_a, ends.low_b) & _are_equal(ends.high_a, ends.high_b)
        return is_equal


@dataclass(frozen=True, slots=True)
class OutputPairs:
    """Other scores of each pair's outputs; all (pair,), NaN if unknown.

    ends: of the overall scores, by `score_low` and `score_high`. is_same: whether both sides gave the same output to
    the same prompt.
    """

    places: Integers
    uniform_a: Floats
    uniform_b: Floats
    passed_a: Floats
    passed_b: Floats
    ends: Ends
    is_same: Bools


@dataclass(frozen=True, slots=True)
class PairedSides:
    """Two models paired by case. overall: pairs of the overall score; by_criterion: pairs by criterion id.

    strata: of the sample by stratum that a side is, by place. are_other_strata: whether both sides are such samples, of
    different strata or rates; those of side B count. uneven_cases: number of the case by place, where cases have unlike
    numbers of pairs and count once each, by the weight of their stratum. Without both, every pair counts as one.
    """

    overall: ScorePairs
    by_criterion: dict[str, ScorePairs]
    outputs: OutputPairs
    strata: Strata | None = None
    are_other_strata: bool = False
    uneven_cases: Integers | None = None

    @property
    def is_weighted(self) -> bool:
        """Whether some pairs count more than others."""
        return self.strata is not None or self.uneven_cases is not None

    def strata_at(self, places: Integers) -> Strata | None:
        """Strata of the pairs at these places: with uneven cases, a case counts once by its pairs among these."""
        strata = None if self.strata is None else self.strata.at(places)
        if self.uneven_cases is None:
            return strata
        cases = self.uneven_cases[places]
        return count_cases_once(cases) if strata is None else share_weights(strata, cases)

    def is_same_at(self, places: Integers) -> Bools:
        """Whether the outputs of the pairs at these places are the same."""
        return self.outputs.is_same[np.searchsorted(self.outputs.places, places)]


def pair_sides(
    connection: duckdb.DuckDBPyConnection, wanted: RunPair, groups: Groups, weights: str = "cases"
) -> PairedSides:
    """Pair the outputs of two models, and read the scores of the pairs. weights: of the rubric, cases or outputs.

    Leaves the temporary table `compared_outputs`.
    """
    add_outputs(connection, wanted, groups)
    overall, *criteria = _read_scores(connection, {"run_a": wanted.run_a, "run_b": wanted.run_b})
    sides = PairedSides(overall[1], dict(criteria), _read_outputs(connection), *_read_strata(connection))
    return replace(sides, uneven_cases=_read_uneven_cases(connection)) if weights == "cases" else sides


def bound_overall(sides: PairedSides, rubric: Rubric, weights: Mapping[str, float]) -> PairedSides:
    """Sides with the bounds of the overall scores that a missing score leaves open.

    weights: of the rubric's criteria, on the scale of per-case criteria. Under `missing: skip` an output has a score
    over what is scored: its bounds are those of every missing score. Under `missing: zero` a score is never open.
    """
    overall = sides.overall
    if rubric.missing == "null":
        ends = Ends(
            *(array[np.searchsorted(sides.outputs.places, overall.places)] for array in _arrays(sides.outputs.ends))
        )
        is_open = overall.missing_a is not None or overall.missing_b is not None
        return replace(sides, overall=replace(overall, of_missing=ends)) if is_open else sides
    overall = replace(overall, missing_a=None, missing_b=None)
    if rubric.missing == "skip":
        has_tree = bool(rubric.categories)
        (missing_a, *of_a), (missing_b, *of_b) = (
            _bound_skipped(sides, side, weights, has_tree=has_tree) for side in "ab"
        )
        if missing_a.any() or missing_b.any():
            overall = replace(overall, missing_a=missing_a, missing_b=missing_b, of_missing=Ends(*of_a, *of_b))
    return replace(sides, overall=overall)


def _bound_skipped(
    sides: PairedSides, side: str, weights: Mapping[str, float], *, has_tree: bool
) -> tuple[Bools, Floats, Floats]:
    """Pairs whose output of a side lacks a weighted score, and the bounds of its overall score."""
    overall = sides.overall
    count, scores = overall.places.size, overall.scores_a if side == "a" else overall.scores_b
    missing, is_other, is_unpaired = (np.zeros(count, dtype=np.bool_) for _ in range(3))
    points, base, gains, losses = (np.zeros(count) for _ in range(4))
    for criterion_id, pairs in sides.by_criterion.items():
        side_scores, owed = (pairs.scores_a, pairs.missing_a) if side == "a" else (pairs.scores_b, pairs.missing_b)
        applied_weights = np.where(np.isnan(pairs.own_weights), weights.get(criterion_id, 0.0), pairs.own_weights)
        indexes = np.minimum(np.searchsorted(overall.places, pairs.places), max(count - 1, 0))
        is_in = (
            (overall.places[indexes] == pairs.places) & (applied_weights != 0.0)
            if count
            else np.zeros(0, dtype=np.bool_)
        )
        is_owed = is_in & (np.zeros(is_in.size, dtype=np.bool_) if owed is None else owed)
        is_known = is_in & ~np.isnan(side_scores)
        missing[indexes[is_owed]] = True
        is_other[indexes[is_in & ~is_owed & ~is_known]] = True  # does not apply
        if weights.get(criterion_id):
            is_unpaired |= ~np.isin(overall.places, pairs.places)  # it applies to one output at most
        points[indexes[is_known]] += (applied_weights * side_scores)[is_known]
        base[indexes[is_known | is_owed]] += np.maximum(applied_weights, 0.0)[is_known | is_owed]
        gains[indexes[is_owed]] += np.maximum(applied_weights, 0.0)[is_owed]
        losses[indexes[is_owed]] += np.minimum(applied_weights, 0.0)[is_owed]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = ((points + more) / base for more in (losses, gains))
        # What applies to one side alone is not read here, and weights within a category depend on what does not apply.
        is_open = is_unpaired | is_other if has_tree else is_unpaired
        least = np.where(base > 0.0, np.minimum(losses / base, 0.0), 0.0)
        low, high = (np.where(is_open, end, bound) for end, bound in ((least, low), (1.0, high)))
    return missing, np.where(missing, low, scores), np.where(missing, high, scores)


def _are_equal(a: Floats, b: Floats) -> Bools:
    return np.asarray((np.abs(a - b) <= TIED) | (np.isnan(a) & np.isnan(b)))


def _arrays(ends: Ends) -> tuple[Floats, ...]:
    return ends.low_a, ends.high_a, ends.low_b, ends.high_b


def make_overall_pairs(connection: duckdb.DuckDBPyConnection, wanted: RunPair, groups: Groups) -> None:
    """Make the temporary tables `compared_outputs` and `compared_pairs` of two models' overall scores."""
    add_outputs(connection, wanted, groups)
    scores = " union all ".join(f"from ({query('comparing/side_overall', side=side)})" for side in "ab")
    pairs = query("comparing/compared_pairs", scores=f"({scores})")
    runs = {"run_a": wanted.run_a, "run_b": wanted.run_b}
    connection.execute(f"create or replace temp table compared_pairs as {pairs}", runs)


def add_outputs(connection: duckdb.DuckDBPyConnection, wanted: RunPair, groups: Groups) -> None:
    """Make the temporary table `compared_outputs`, the outputs of two models."""
    values = {"run_a": wanted.run_a, "run_b": wanted.run_b}
    for side, group in zip("ab", groups, strict=True):
        values |= {f"model_{side}": group["model"], f"checkpoint_{side}": group["checkpoint"]}
    make_table(connection, "comparing/compared_outputs", **values)


def name_places(connection: duckdb.DuckDBPyConnection, places: list[int]) -> dict[int, dict[str, object]]:
    """Case, sample and outputs of some places, by place."""
    rows = connection.execute(query("comparing/place_names"), {"places": places}).to_arrow_table().to_pylist()
    return {row.pop("place"): row for row in rows}


def _read_scores(connection: duckdb.DuckDBPyConnection, runs: dict[str, str]) -> Iterator[tuple[str, ScorePairs]]:
    """Overall scores, with an empty id, then each criterion, by id."""
    make_table(connection, "comparing/compared_criteria", **runs, part_rows=PART_ROWS)
    ((part_count,),) = connection.execute("select coalesce(max(part) + 1, 0) from compared_criteria").fetchall()
    overall: ScorePairs | None = None
    for part in range(max(part_count, 1)):
        selects = [query("comparing/side_verdicts", side=side) for side in "ab"]
        if part == 0:
            selects += [query("comparing/side_overall", side=side) for side in "ab"]
        scores = " union all ".join(f"from ({select})" for select in selects)
        pairs = query("comparing/compared_pairs", scores=f"({scores})")
        connection.execute(f"create or replace temp table compared_pairs as {pairs}", runs | {"part": part})
        for criterion_id, score_pairs in _read_pairs(connection, overall):
            overall = overall or score_pairs
            yield criterion_id, score_pairs
    connection.execute("drop table compared_pairs; drop table compared_criteria")


def _read_pairs(connection: duckdb.DuckDBPyConnection, overall: ScorePairs | None) -> Iterator[tuple[str, ScorePairs]]:
    """Rows of `compared_pairs`, by criterion."""
    counts = connection.execute(query("comparing/pair_counts")).fetchall()
    table = connection.execute(
        "select place, case_number, score_a, score_b, own_weight, missing_a, missing_b from compared_pairs "
        "where is_pair order by criterion_id, place"
    ).to_arrow_table()
    start = 0
    for criterion_id, pair_count, *other_counts in counts:
        rows = table.slice(start, pair_count)
        start += pair_count
        places, cases = (_integers(rows, name) for name in ("place", "case_number"))
        if overall is not None and np.array_equal(places, overall.places):
            places, cases = overall.places, overall.cases
        scores = _floats(rows, "score_a"), _floats(rows, "score_b")
        missing = (_bools(rows, name) for name in ("missing_a", "missing_b"))
        missing_a, missing_b = (mask if mask.any() else None for mask in missing)
        own_weights = _floats(rows, "own_weight")
        score_pairs = ScorePairs(PairCounts(*other_counts), places, cases, *scores, own_weights, missing_a, missing_b)
        overall = overall or score_pairs
        yield criterion_id, score_pairs


def _read_outputs(connection: duckdb.DuckDBPyConnection) -> OutputPairs:
    table = connection.execute(query("comparing/paired_outputs")).to_arrow_table()
    places, is_same = _integers(table, "place"), _bools(table, "is_same")
    if not is_same.all():  # texts are read only where ids differ
        same_outputs = connection.execute(query("comparing/same_outputs")).to_arrow_table()
        is_same = is_same | np.isin(places, _integers(same_outputs, "place"))
    ends = Ends(*(_floats(table, name) for name in Ends.__slots__))
    uniform = _floats(table, "uniform_a"), _floats(table, "uniform_b")
    return OutputPairs(places, *uniform, _floats(table, "passed_a"), _floats(table, "passed_b"), ends, is_same)


def _read_strata(connection: duckdb.DuckDBPyConnection) -> tuple[Strata | None, bool]:
    """Strata by place, and whether the sides have different ones."""
    table = connection.execute(query("comparing/paired_strata")).to_arrow_table()
    if not table.num_rows:
        return None, False
    places = _integers(table, "place")
    codes, pair_weights = np.zeros(places[-1] + 1, dtype=np.int64), np.ones(places[-1] + 1)
    codes[places], pair_weights[places] = _integers(table, "code"), _floats(table, "weight")
    case_count = table.column("dataset_case_count")[0].as_py()
    return Strata(codes, pair_weights, case_count), bool(pc.any(table.column("is_other")).as_py())


def _read_uneven_cases(connection: duckdb.DuckDBPyConnection) -> Integers | None:
    """Number of the case by place; None where all cases have as many pairs."""
    table = connection.execute(query("comparing/uneven_pairs")).to_arrow_table()
    if not table.num_rows:
        return None
    places = _integers(table, "place")
    cases = np.zeros(places[-1] + 1, dtype=np.int64)
    cases[places] = _integers(table, "uneven_case")
    return cases


def _integers(table: pa.Table, name: str) -> Integers:
    return np.asarray(table.column(name).combine_chunks(), np.int64)


def _bools(table: pa.Table, name: str) -> Bools:
    return np.asarray(table.column(name).combine_chunks().to_numpy(zero_copy_only=False), np.bool_)


def _floats(table: pa.Table, name: str) -> Floats:
    """Column as floats, NaN for null; an all-null column becomes a broadcast view without memory of its own."""
    column = table.column(name)
    if column.null_count == len(column):
        return np.broadcast_to(np.float64(np.nan), len(column))
    floats: Floats = column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False)
    return floats
