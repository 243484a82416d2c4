"""Comparison of means over different cases: all outputs of two models, whatever has a counterpart."""

from collections.abc import Sequence
from dataclasses import replace

import duckdb
import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric, effective_weights
from gradebook.rubrics.model.scores import OVERALL_DIGITS
from gradebook.rubrics.statistics.comparison import OpenFigures, PairFigures
from gradebook.rubrics.statistics.intervals import DIFFERENCES, Interval
from gradebook.rubrics.statistics.rules import CRITERION, OVERALL
from gradebook.rubrics.statistics.unpaired import measure_unpaired
from gradebook.tasks.comparing.case_pairs import PairCounts, add_outputs
from gradebook.tasks.comparing.figures import ComparedRow, adjust_rows, difference_bounds
from gradebook.tasks.comparing.model_pairs import Groups, Wanted
from gradebook.tasks.lake.rows import model_name
from gradebook.tasks.lake.sql import query

BANNER = (
    "unpaired: B - A is of all outputs, whatever their cases. Cases that are harder on one side count as a difference "
    "of the models. p and the interval allow for what either side alone can't show."
)


def compare_unpaired(
    connection: duckdb.DuckDBPyConnection, wanted: Wanted, groups: Groups, rubric: Rubric, ids: Sequence[str]
) -> tuple[ComparedRow, tuple[ComparedRow, ...]]:
    """The row of the overall score, and those of the criteria with these ids, in order."""
    runs = {"run_a": wanted.run_a, "run_b": wanted.run_b}
    add_outputs(connection, wanted, groups)
    if connection.execute("select 1 from compared_outputs where inclusion_rate is not null limit 1").fetchall():
        expected = "runs whose cases count the same, or a comparison by case, without --unpaired"
        raise InputError("--unpaired", "a run whose cases were drawn by stratum", expected)
    found = connection.execute(query("comparing/unpaired_scores"), runs).to_arrow_table()
    criteria, sides = (found.column(name).to_numpy() for name in ("criterion_id", "side"))
    cases = found.column("case_number").to_numpy()
    # As overall scores are.
    scores, lows, highs = (np.round(found.column(name).to_numpy(), OVERALL_DIGITS) for name in ("score", "low", "high"))
    named = model_name(groups[0]), model_name(groups[1])

    def row(scope: str, scope_id: str, bounds: Interval) -> ComparedRow:
        is_own = criteria == scope_id

        def measure(scores_a: Floats, scores_b: Floats) -> PairFigures:
            of_a, of_b = (
                is_own & (sides == side) & ~np.isnan(each)
                for side, each in zip("ab", (scores_a, scores_b), strict=True)
            )
            return measure_unpaired(scores_a[of_a], scores_b[of_b], cases[of_a], cases[of_b], bounds=bounds)

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
        row = ComparedRow(*named, scope, scope_id, category, counts, figures, is_penalty=is_penalty, is_paired=False)
        return replace(row, open_figures=left_open)

    weights = [*effective_weights(rubric).values()]
    base = sum(max(weight, 0.0) for weight in weights) or 1.0
    overall = row(OVERALL, "", difference_bounds(weight / base for weight in weights))
    return overall, adjust_rows([row(CRITERION, criterion_id, DIFFERENCES) for criterion_id in ids])
