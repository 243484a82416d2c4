"""Remarks on a comparison."""

import numpy as np

from gradebook.rubrics.statistics.comparison import measure_pairs, with_power
from gradebook.rubrics.statistics.intervals import DIFFERENCES
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.sentences import merge_equal_remarks, release_sentence


def test_the_default_release_rule_is_met_or_says_how_often_an_equal_model_meets_it():
    moved = np.tile([-0.3, 0.0, 0.3], 40)
    cases = np.arange(120)
    figures = measure_pairs(np.full(120, 0.5), 0.5 + moved, cases)
    figures = with_power(figures, moved, cases, DIFFERENCES, test_count=2)
    words = release_sentence(ComparedRow("a", "b", "overall", "", None, PairCounts(0, 0, 0, 0), figures))
    head, power = words.split(". An ")
    assert head.endswith(f"is not met: the 95% interval begins at {figures.diff_low:+.3f}")
    assert (
        power == f"equal model meets it in about {figures.release_power:.0%} of comparisons with 120 cases like these."
    )
    assert 0.1 < figures.release_power < 0.2  # 14.1% by t
    assert figures.detectable_diff > measure_pairs(np.full(120, 0.5), 0.5 + moved, cases).detectable_diff  # two tests
    same = measure_pairs(np.zeros(500), np.zeros(500), np.arange(500))
    met = ComparedRow("a", "b", "overall", "", None, PairCounts(0, 0, 0, 0), same)
    assert release_sentence(met).endswith("is met: the 95% interval begins at -0.007.")


def test_a_remark_on_several_rows_is_said_once():
    remarks = [("tone", "few"), ("facts", "skewed"), ("length", "few")]
    assert [*merge_equal_remarks(remarks)] == ["tone, length: few", "facts: skewed"]
