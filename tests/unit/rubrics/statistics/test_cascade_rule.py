"""Rules of a cascade: the bound by hand, and what a rule loses and costs."""

import numpy as np
import pytest

from gradebook.rubrics.statistics.cascade_rule import (
    GRIDS,
    JudgedTwice,
    Rule,
    choose_rule,
    loss_p_value,
    measure_rule,
    pass_in_order,
)

NO, YES = 0.0, 1.0


def verdicts(shares: list[float], others: list[bool], cases: list[int] | None = None) -> JudgedTwice:
    """Verdicts of a first judge that says pass, with its probability; the second fails those that differ."""
    n, is_other = len(shares), np.array(others)
    prices = np.full(n, 0.001), np.full(n, 0.01)
    codes = np.arange(n) if cases is None else np.array(cases)
    first, second = np.ones(n), np.where(is_other, 0.0, 1.0)
    is_gate = np.arange(n) % 2 == 0
    doubts = {"share_below": np.array(shares)}
    return JudgedTwice(doubts, is_other, is_gate, is_gate & is_other, first, second, codes, *prices, np.arange(n))


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([NO] * 149, 0.98**149),
        ([NO] * 235 + [YES], 0.98**236 + 236 * 0.02 * 0.98**235),
        ([YES], 1.0),
        ([], 1.0),
        # of half a loss in 300 Hoeffding's bound is the lower one: (p / q)^(n q) ((1 - p) / (1 - q))^(n (1 - q))
        ([0.5] + [NO] * 299, 12**0.5 * (0.98 * 600 / 599) ** 299.5),
    ],
)
def test_the_chance_of_so_few_losses_is_the_one_by_hand(losses: list[float], expected: float):
    assert loss_p_value(np.array(losses), 0.02) == pytest.approx(min(expected, 1.0), rel=1e-9)


def test_rules_after_the_first_that_fails_are_not_tested():
    few, many = np.zeros(200), np.r_[np.ones(20), np.zeros(180)]
    assert [pass_in_order(each, 0.02, 0.05) for each in ([few, few], [few, many, few], [many, few], [])] == [2, 1, 0, 0]


@pytest.mark.parametrize("name", GRIDS)
def test_each_kind_of_rule_goes_from_asking_more_to_asking_less(name: str):
    measures = np.array([*np.linspace(0, 1, 501), np.nan])
    asked = [Rule(name, value).is_asked(measures).sum() for value in GRIDS[name]]
    assert asked == sorted(asked, reverse=True)
    assert (asked[0] >= 501, asked[-1]) == (True, 1)  # what has no measure is always asked


def test_a_rule_loses_and_costs_what_it_does_not_ask():
    # Asked are the first two of four: the one that differs there is no loss, that of the last is.
    found = measure_rule(verdicts([0.6, 0.7, 0.9, 0.99], [True, False, False, True]), Rule("share_below", 0.8))
    assert (found.asked, found.loss.value, found.usd) == (0.5, 0.25, pytest.approx(1000 * (4 * 0.001 + 2 * 0.01) / 4))
    assert found.shift.value == 0.25  # (1 - 0) / 4
    assert found.gate_loss is not None and found.gate_loss.value == 0.0  # the gates are the first and the third


def test_the_rule_leaves_to_the_first_judge_what_both_agree_on():
    rng = np.random.default_rng(5)
    is_open = rng.random(600) < 0.3
    shares = np.where(is_open, 0.6, 0.97)
    pairs = verdicts(shares.tolist(), (is_open & (rng.random(600) < 0.5)).tolist())
    found = choose_rule(pairs, 0.02, 0.95, np.random.default_rng(1))
    assert found.chosen is not None and found.chosen.rule == Rule("share_below", 0.97)
    assert found.chosen.asked == pytest.approx(0.3, abs=0.05)
    assert (found.chosen.loss.value, found.case_count, found.fresh_count) == (0.0, 300, 300)
    assert [row.asked for row in found.frontier] == sorted((row.asked for row in found.frontier), reverse=True)


def test_too_few_cases_show_no_loss_so_small():
    found = choose_rule(verdicts([0.9] * 100, [False] * 100), 0.02, 0.95, np.random.default_rng(1))
    assert (found.chosen, found.needed_count) == (None, 149)  # 50 cases: 0.98^50 = 0.36
    assert choose_rule(verdicts([0.9] * 300, [False] * 300), 0.02, 0.95, np.random.default_rng(1)).chosen is not None


def test_verdicts_of_a_case_count_as_one_case():
    once = verdicts([0.9] * 200, [False] * 200)
    often = verdicts([0.9] * 2_000, [False] * 2_000, [n // 10 for n in range(2_000)])
    assert (once.case_count, often.case_count) == (200, 200)
    counts = [choose_rule(each, 0.02, 0.95, np.random.default_rng(1)).case_count for each in (once, often)]
    assert counts == [100, 100]
