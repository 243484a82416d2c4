"""Remarks on a comparison."""

import numpy as np

from gradebook.rubrics.statistics.comparison import measure_pairs
from gradebook.rubrics.statistics.power import Margin
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.sentences import each_once, release_sentence


def test_the_default_release_rule_is_met_or_says_how_many_cases_it_takes():
    moved = np.tile([-0.3, 0.0, 0.3], 40)
    figures = measure_pairs(np.full(120, 0.5), 0.5 + moved, np.arange(120))
    needed = Margin(0.02).needed_n(0.0, figures.sd_diff)
    words = release_sentence(ComparedRow("a", "b", "overall", "", None, PairCounts(0, 0, 0, 0), figures))
    head, power = words.split(". An ")
    assert head.endswith(f"is not met: the 95% interval begins at {figures.diff_low:+.3f}")
    assert (
        power == f"equal model meets it in 14.1% of comparisons with 120 cases, and four times in five with {needed:,}."
    )
    same = measure_pairs(np.zeros(500), np.zeros(500), np.arange(500))
    met = ComparedRow("a", "b", "overall", "", None, PairCounts(0, 0, 0, 0), same)
    assert release_sentence(met).endswith("is met: the 95% interval begins at -0.007.")


def test_a_remark_on_several_rows_is_said_once():
    remarks = [("tone", "few"), ("facts", "skewed"), ("length", "few")]
    assert [*each_once(remarks)] == ["tone, length: few", "facts: skewed"]
