"""Pairing of outputs by case, and the scores of each pair as arrays."""

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.statistics.strata import Strata
from gradebook.tasks.comparing.model_pairs import Groups, Wanted
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PART_ROWS = 1_000_000  # verdicts paired at once: memory beyond the scores does not grow with the run


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Counts of outputs and pairs of a criterion, or of the overall score.

    n and unscored_count count pairs of two outputs each; unpaired_count and ambiguous_count count outputs. Ambiguous:
    a side has several outputs of that case and sample_index. held_otherwise_count: unpaired outputs whose partner has
    other per-case criteria, or none.
    """

    unpaired_count: int
    held_otherwise_count: int
    ambiguous_count: int
    unscored_count: int


@dataclass(frozen=True, slots=True)
class ScorePairs:
    """Pairs of one criterion; all arrays (pair,), ordered by place.

    places: number of the pair within the comparison. cases: number of its case, or of its named cluster.
    scores_a, scores_b: NaN if unscored. own_weights: NaN if the criterion is the rubric's. Arrays may be shared by
    several criteria: do not write to them.
    """

    counts: PairCounts
    places: Integers
    cases: Integers
    scores_a: Floats
    scores_b: Floats
    own_weights: Floats

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """Mask of the pairs with a score on both sides."""
        return ~(np.isnan(self.scores_a) | np.isnan(self.scores_b))


@dataclass(frozen=True, slots=True)
class OutputPairs:
    """Other scores of each pair's outputs; all (pair,), NaN if unknown."""

    places: Integers
    uniform_a: Floats
    uniform_b: Floats
    passed_a: Floats
    passed_b: Floats


@dataclass(frozen=True, slots=True)
class PairedSides:
    """Two models paired by case. overall: pairs of the overall score; by_criterion: pairs by criterion id.

    strata: of the sample by stratum that a side is, by place; None: every pair counts as one. are_other_strata: whether
    both sides are such samples, of different strata or rates; those of side B count.
    """

    overall: ScorePairs
    by_criterion: dict[str, ScorePairs]
    outputs: OutputPairs
    strata: Strata | None = None
    are_other_strata: bool = False

    def strata_at(self, places: Integers) -> Strata | None:
        """Strata of the pairs at these places."""
        return None if self.strata is None else self.strata.at(places)


def pair_sides(connection: duckdb.DuckDBPyConnection, wanted: Wanted, groups: Groups) -> PairedSides:
    """Pair the outputs of two models, and read the scores of the pairs.

    Leaves the temporary table `compared_outputs`.
    """
    add_outputs(connection, wanted, groups)
    overall, *criteria = _read_scores(connection, {"run_a": wanted.run_a, "run_b": wanted.run_b})
    return PairedSides(overall[1], dict(criteria), _read_outputs(connection), *_read_strata(connection))


def make_overall_pairs(connection: duckdb.DuckDBPyConnection, wanted: Wanted, groups: Groups) -> None:
    """Make the temporary tables `compared_outputs` and `compared_pairs` of two models' overall scores."""
    add_outputs(connection, wanted, groups)
    scores = " union all ".join(f"from ({query('comparing/side_overall', side=side)})" for side in "ab")
    pairs = query("comparing/compared_pairs", scores=f"({scores})")
    runs = {"run_a": wanted.run_a, "run_b": wanted.run_b}
    connection.execute(f"create or replace temp table compared_pairs as {pairs}", runs)


def add_outputs(connection: duckdb.DuckDBPyConnection, wanted: Wanted, groups: Groups) -> None:
    """Make the temporary table `compared_outputs`, the outputs of two models."""
    values = {"run_a": wanted.run_a, "run_b": wanted.run_b}
    for side, group in zip("ab", groups, strict=True):
        values |= {f"model_{side}": group["model"], f"checkpoint_{side}": group["checkpoint"]}
    make_table(connection, "comparing/compared_outputs", **values)


def name_places(connection: duckdb.DuckDBPyConnection, places: list[int]) -> dict[int, dict[str, object]]:
    """Case, sample and outputs of some places, by place."""
    found = connection.execute(query("comparing/place_names"), {"places": places}).to_arrow_table().to_pylist()
    return {row.pop("place"): row for row in found}


def _read_scores(connection: duckdb.DuckDBPyConnection, runs: dict[str, str]) -> Iterator[tuple[str, ScorePairs]]:
    """Overall scores, with an empty id, then each criterion, by id."""
    make_table(connection, "comparing/compared_criteria", **runs, part_rows=PART_ROWS)
    ((part_count,),) = connection.execute("select coalesce(max(part) + 1, 0) from compared_criteria").fetchall()
    overall: ScorePairs | None = None
    for part in range(max(part_count, 1)):
        parts = [query("comparing/side_verdicts", side=side) for side in "ab"]
        if part == 0:
            parts += [query("comparing/side_overall", side=side) for side in "ab"]
        scores = " union all ".join(f"from ({each})" for each in parts)
        pairs = query("comparing/compared_pairs", scores=f"({scores})")
        connection.execute(f"create or replace temp table compared_pairs as {pairs}", runs | {"part": part})
        for criterion_id, found in _read_pairs(connection, overall):
            overall = overall or found
            yield criterion_id, found
    connection.execute("drop table compared_pairs; drop table compared_criteria")


def _read_pairs(connection: duckdb.DuckDBPyConnection, overall: ScorePairs | None) -> Iterator[tuple[str, ScorePairs]]:
    """Rows of `compared_pairs`, by criterion."""
    counts = connection.execute(query("comparing/pair_counts")).fetchall()
    table = connection.execute(
        "select place, case_number, score_a, score_b, own_weight from compared_pairs where is_pair "
        "order by criterion_id, place"
    ).to_arrow_table()
    start = 0
    for criterion_id, pair_count, *others in counts:
        rows = table.slice(start, pair_count)
        start += pair_count
        places, cases = (_integers(rows, name) for name in ("place", "case_number"))
        if overall is not None and np.array_equal(places, overall.places):
            places, cases = overall.places, overall.cases
        scores = _floats(rows, "score_a"), _floats(rows, "score_b")
        found = ScorePairs(PairCounts(*others), places, cases, *scores, _floats(rows, "own_weight"))
        overall = overall or found
        yield criterion_id, found


def _read_outputs(connection: duckdb.DuckDBPyConnection) -> OutputPairs:
    table = connection.execute(query("comparing/paired_outputs")).to_arrow_table()
    places, *others = table.column_names
    return OutputPairs(_integers(table, places), *(_floats(table, name) for name in others))


def _read_strata(connection: duckdb.DuckDBPyConnection) -> tuple[Strata | None, bool]:
    """Strata by place, and whether the sides have different ones."""
    table = connection.execute(query("comparing/paired_strata")).to_arrow_table()
    if not table.num_rows:
        return None, False
    places = _integers(table, "place")
    codes, weights = np.zeros(places[-1] + 1, dtype=np.int64), np.ones(places[-1] + 1)
    codes[places], weights[places] = _integers(table, "code"), _floats(table, "weight")
    case_count = table.column("dataset_case_count")[0].as_py()
    return Strata(codes, weights, case_count), bool(pc.any(table.column("is_other")).as_py())


def _integers(table: pa.Table, name: str) -> Integers:
    return np.asarray(table.column(name).combine_chunks(), np.int64)


def _floats(table: pa.Table, name: str) -> Floats:
    """Column as floats, NaN for null; an all-null column becomes a broadcast view without memory of its own."""
    column = table.column(name)
    if column.null_count == len(column):
        return np.broadcast_to(np.float64(np.nan), len(column))
    found: Floats = column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False)
    return found
