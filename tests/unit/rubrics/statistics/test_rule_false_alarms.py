"""rubrics/statistics/drawn_rules: a rule held against many comparisons, and what its p allows."""

from itertools import product

import numpy as np

from gradebook.rubrics.statistics.comparison import PASS_FIGURES, ROW_FIGURES
from gradebook.rubrics.statistics.noise import Nominal, holds_in_each, nominal_rate
from gradebook.rubrics.statistics.rules import holds, parse_rule
from tests.support.law_over import law_over

FIGURES = {"overall": (*ROW_FIGURES, *PASS_FIGURES), "criterion": ROW_FIGURES, "category": ROW_FIGURES}
VALUES = np.array([*product((-0.1, 0.1, np.nan), repeat=3)])  # of p, mean_diff, and both of a criterion


class Some:
    """Every mix of known and unknown figures; of one comparison where draw is given."""

    draw_count = len(VALUES)

    def __init__(self, ids: tuple[str, ...] = ("tone",), draw: int | None = None) -> None:
        self._ids, self._draw = ids, draw

    def ids(self, scope: str) -> tuple[str, ...]:
        return self._ids if scope == "criterion" else ()

    def figures(self, scope: str, scope_id: str, figure: str) -> np.ndarray:
        return VALUES[:, 2 if scope == "criterion" else ("p", "mean_diff").index(figure)]

    def figure(self, scope: str, scope_id: str, figure: str) -> float:
        return self.figures(scope, scope_id, figure)[self._draw]


@law_over(
    "text",
    [
        *("p < 0", "not p < 0", "p < 0 and mean_diff > 0", "p < 0 or mean_diff > 0", "p = 0.1", "p != 0.1"),
        *("any criterion (p < 0)", "p < 0 and not any criterion (p >= 0 or mean_diff < 0)", "any category (p < 0)"),
    ],
)
def test_a_rule_holds_in_each_comparison_as_it_does_in_one(text):
    rule = parse_rule(text, FIGURES)
    found = holds_in_each(rule, Some())
    alone = [holds(rule, Some(draw=draw)) for draw in range(len(VALUES))]
    assert [None if np.isnan(value) else bool(value) for value in found] == alone


@law_over(
    ("text", "expected"),
    [
        ("p < 0.05", Nominal(0.05, None)),
        ("mean_diff < 0 and p <= 0.05", Nominal(0.025, None)),
        ("mean_diff < -0.01 and n > 10 and p < 0.01", Nominal(0.005, None)),
        ("mean_diff < 0.1 and p < 0.05", Nominal(0.05, None)),  # says no direction
        ("criterion.tone.mean_diff > 0 and criterion.tone.p < 0.1", Nominal(0.05, None)),
        ("criterion.tone.mean_diff > 0 and p < 0.1", Nominal(0.1, None)),  # the direction is another row's
        ("any criterion (mean_diff < 0 and p_adjusted < 0.05)", Nominal(0.025, None)),
        ("any criterion (mean_diff < 0 and p < 0.05)", Nominal(0.025, "criterion")),
        ("any category (p_wilcoxon < 0.05)", Nominal(0.05, "category")),
        ("any criterion (mean_diff < 0) and any criterion (p_adjusted < 0.05)", Nominal(0.05, None)),
        ("pass_diff < 0 and p_mcnemar < 0.05", Nominal(0.025, None)),
        *((text, None) for text in ("mean_diff < -0.01", "p < 0.05 or mean_diff < -0.1", "not p < 0.05", "p > 0.05")),
        *((text, None) for text in ("p < 0.05 and p_wilcoxon < 0.05", "p < 2")),
    ],
)
def test_the_one_p_of_a_rule_says_how_often_it_should_fire(text, expected):
    assert nominal_rate(parse_rule(text, FIGURES)) == expected
