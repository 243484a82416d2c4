"""Weights that follow an outcome, as the next version of a rubric."""

from datetime import date
from typing import Any

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import effective_weights
from gradebook.tasks.agreement.outcomes import Followed, OutcomeFollowing, rubric_with_weights

TODAY = date(2026, 11, 29)
LEVELS = "levels: [{id: bad, score: 0}, {id: good, score: 1}]"
CATEGORIES = "categories: [{id: big, weight: 3}, {id: small, weight: 1}]"


def rubric(categories: str = "", weight: float = 2.0) -> Any:
    named = {"a": "big", "b": "big", "c": "small"}
    weights = {"a": weight, "b": 1, "c": 1}
    rows = "\n".join(
        f"  - {{id: {name}, description: Is it {name}?, weight: {weights[name]}, method: {{type: judge}}, {LEVELS}"
        f"{f', category: {category}' if categories else ''}}}"
        for name, category in named.items()
    )
    return parse_rubric(f"id: r\nversion: 1.2.0\n{categories}\ncriteria:\n{rows}\n", "r.yaml")


def following(r2: float, **shares: float | None) -> OutcomeFollowing:
    rows = [Followed(name, 99, 99, *(None,) * 6, suggested=share) for name, share in shares.items()]
    return OutcomeFollowing("clicks", "case", "m", True, tuple(rows), r2, 0.1)


@pytest.mark.parametrize("categories", ["", CATEGORIES])
def test_the_next_version_has_the_weights_of_the_outcome_that_they_explain_best(categories):
    outcomes = [following(0.2, a=0.1, b=0.1, c=0.8), following(0.6, a=0.5, b=0.3, c=0.2)]
    found = rubric_with_weights(rubric(categories), outcomes, TODAY)
    weights = effective_weights(found)
    total = sum(weights.values())
    assert {name: weight / total for name, weight in weights.items()} == pytest.approx({"a": 0.5, "b": 0.3, "c": 0.2})
    assert (found.reviewed, found.version > "1.2.0") == ("2026-11-29", True)


def test_a_criterion_that_never_varied_has_its_share_as_before():
    found = rubric_with_weights(rubric(), [following(0.6, a=0.75, b=0.25, c=None)], TODAY)
    # c has 1 of 4; a and b divide the rest, 3 of 4
    assert [each.weight for each in found.criteria] == [0.5625, 0.1875, 0.25]


def test_without_a_suggestion_there_is_no_draft():
    with pytest.raises(InputError, match="no suggested weights"):
        rubric_with_weights(rubric(), [following(0.6, a=None, b=None)], TODAY)
