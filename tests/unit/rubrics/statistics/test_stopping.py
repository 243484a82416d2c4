"""Sequential stopping: when to look, the bounds of each look, and decisions."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.stopping import StopRule, analyse_interim, read_stop_rule, spending_bounds
from tests.support.law_over import law_over

FIFTHS = [0.2, 0.4, 0.6, 0.8, 1.0]
DRAWN = np.random.default_rng(3).choice([-0.5, 0.0, 0.5], 400, p=[0.6, 0.3, 0.1])  # a mean of about -0.25


@pytest.mark.parametrize(
    ("spending", "published"),
    [
        # Lan and DeMets, two-sided 0.05, five equal looks (ldbounds, Jennison and Turnbull 2000, table 7.1)
        ("obf", [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        ("pocock", [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_bounds_are_the_published_ones(spending, published):
    assert spending_bounds(FIFTHS, spending, 0.05) == pytest.approx(published, abs=1.5e-4)


def test_bounds_of_a_look_do_not_depend_on_later_looks():
    assert spending_bounds([0.2, 0.9], "obf", 0.05)[0] == spending_bounds(FIFTHS, "obf", 0.05)[0]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("looks=10", StopRule("looks", 10)),
        ("looks=2,pocock", StopRule("looks", 2, "pocock")),
        ("suite", StopRule("suite")),
        ("always", StopRule("always")),
    ],
)
def test_a_rule_is_read(text, rule):
    assert read_stop_rule(text) == rule


@law_over("text", ["", "looks", "looks=1", "looks=101", "looks=5,obf,pocock", "Suite", "looks=5, pocock"])
def test_a_rule_that_is_none_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - its text is the rule
        read_stop_rule(text)


def test_looks_divide_the_cases_and_the_last_has_all():
    assert read_stop_rule("looks=4").ends(10) == (3, 5, 8, 10)
    assert read_stop_rule("looks=10").ends(3) == (1, 2, 3)  # no look without a case
    assert read_stop_rule("always").ends(25) == (10, 20, 25)
    assert read_stop_rule("suite").ends(1) == (1,)


@pytest.mark.parametrize("text", ["looks=10", "looks=10,pocock", "suite", "always"])
def test_a_look_decides_exactly_if_its_interval_leaves_out_the_null(text):
    rule, cases = read_stop_rule(text), np.arange(400)
    ends = rule.ends(400)
    for null in (0.0, -0.1):
        taken = [analyse_interim(rule, ends[:count], cases, DRAWN, 400, null=null) for count in range(1, len(ends) + 1)]
        first = next(number for number, found in enumerate(taken, 1) if found.sign)
        assert all(found.low <= null <= found.high for found in taken[: first - 1])
        found = taken[first - 1]
        assert (found.sign, found.decided_at) == (-1, first)
        assert found.low < found.mean < found.high <= null
        assert [each.decided_at for each in taken[first:]] == [first] * (len(ends) - first)  # it stays decided


def test_a_margin_is_decided_before_a_difference():
    rule, cases, same = read_stop_rule("always"), np.arange(400), np.tile([0.25, -0.25, 0.0, 0.0], 100)
    assert analyse_interim(rule, rule.ends(400), cases, same, 400).sign == 0
    assert analyse_interim(rule, rule.ends(400), cases, same, 400, null=-0.1).sign == 1


def test_a_suite_that_is_known_to_the_last_case_has_the_sign_of_its_mean():
    values = np.tile([0.25, -0.25], 20) + np.eye(1, 40, 39)[0] * 0.01
    found = analyse_interim(read_stop_rule("suite"), (40,), np.arange(40), values, 40)
    assert (found.sign, found.low, found.high) == (1, pytest.approx(0.01 / 40), pytest.approx(0.01 / 40))


@law_over("text", ["looks=5", "suite", "always"])
@law_over("values", [[], [0.5], [0.0] * 20])
def test_too_few_or_equal_cases_decide_nothing(text, values):
    found = analyse_interim(read_stop_rule(text), (20,), np.arange(len(values)), np.array(values), 100)
    assert (found.sign, found.decided_at, found.n) == (0, None, len(values))


def test_pairs_of_one_case_count_as_one():
    rule, differences = read_stop_rule("looks=2"), np.repeat(DRAWN[:20], 5)
    alone = analyse_interim(rule, (20,), np.arange(100) // 5, differences, 40)
    assert alone.n == 100
    assert alone.level == pytest.approx(analyse_interim(rule, (20,), np.arange(20), DRAWN[:20], 40).level)
