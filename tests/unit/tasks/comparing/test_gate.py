"""Refusals of a gate: undecided or not, and the reason that the rule gives."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gradebook.rubrics.statistics.comparison import measure_pairs
from gradebook.rubrics.statistics.release import Ship
from gradebook.rubrics.statistics.rules import CRITERION, OVERALL
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.gate import GateRule, PairRows, Refusal, evaluate_gate

FELL, SWAYED, ROSE = [-0.2, -0.3] * 10, [0.2, -0.2] * 10, [0.2, 0.3] * 10


def compared(scope: str, name: str, changes: Sequence[float]) -> ComparedRow:
    """Row of pairs with scores of 0.5 before, and these changes."""
    before = np.full(len(changes), 0.5)
    figures = measure_pairs(before, before + np.array(changes), np.arange(len(changes)))
    figures = replace(figures, p_adjusted=None if scope == OVERALL else figures.p)
    return ComparedRow("m", "m", scope, name, None, PairCounts(0, 0, 0, 0), figures)


def refusal(rule: GateRule, *rows: ComparedRow) -> Refusal:
    (only,) = evaluate_gate(rule, [PairRows("m", "m", rows)]).refused
    return only


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        (SWAYED, Ship.UNDECIDED, "20 cases can't rule out a distance of"),
        (FELL, Ship.MAY_NOT, "worse than the baseline beyond chance, by 0.250 (at most"),
        (ROSE * 10, Ship.MAY_NOT, "better than the baseline beyond chance, by 0.250 (at most"),
    ],
)
def test_an_equivalence_that_the_cases_leave_open_is_undecided(changes: list[float], outcome: Ship, words: str):
    rule = GateRule(require="equivalent_within(0.05)")
    refused = refusal(rule, compared(OVERALL, "", changes))
    assert refused.outcome is outcome
    assert words in refused.clause


@pytest.mark.parametrize(
    ("fail_if", "words"),
    [
        ("any criterion (mean_diff < 0 and p_adjusted < 0.05)", "worse than the baseline beyond chance: 0.250 on tone"),
        ("n > 5", "not (n > 5) against the baseline is not met (n = 20)"),
        ("criterion.tone.mean_diff < -0.9 or n > 5", "is not met"),
    ],
)
def test_a_refusal_names_only_what_decided_the_rule(fail_if: str, words: str):
    rows = compared(OVERALL, "", FELL), compared(CRITERION, "tone", FELL), compared(CRITERION, "facts", SWAYED)
    assert words in refusal(GateRule(fail_if), *rows).words


def test_a_pair_without_rows_is_refused_as_undecided_beside_one_that_passes():
    pairs = [PairRows("m", "m", (compared(OVERALL, "", ROSE),)), PairRows("k", "k", ())]
    finding = evaluate_gate(GateRule(require="mean_diff > 0"), pairs)
    assert [(refused.model, refused.outcome) for refused in finding.refused] == [("k", Ship.UNDECIDED)]
    assert finding.is_undecided
