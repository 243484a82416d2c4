"""What a criterion weighs in a tree of categories."""

from typing import Any

import pytest
from pydantic import ValidationError

from gradebook.rubrics.model.rubric import (
    TOP,
    Rubric,
    category_weights,
    effective_weights,
    score_range,
    scored_category_weights,
    tree_steps,
)
from tests.support.law_over import law_over

METHOD = {"type": "check", "check": "length_words", "settings": {"max": 9}}


def criterion(criterion_id: str, weight: float | None, category: str | None = None, **others: Any) -> dict[str, Any]:
    words = {"id": criterion_id, "description": "?", "method": METHOD, "weight": weight, "category": category}
    return words | others


def rubric(categories: list[dict[str, Any]], *criteria: dict[str, Any]) -> Rubric:
    return Rubric.model_validate({"id": "r", "version": "1.0.0", "categories": categories, "criteria": criteria})


def test_without_categories_the_weights_are_those_of_the_file():
    flat = rubric([], criterion("a", 3, "x"), criterion("b", None), criterion("g", None, gate=True))
    assert effective_weights(flat) == {"a": 3, "b": 1, "g": 0}


def test_a_weight_is_the_product_of_its_shares():
    # x has 3 of 4 at the top, a 1 of 2 in x: 3/4 * 1/2; y has 1 of 4, c all of y
    tree = rubric(
        [{"id": "x", "weight": 3}, {"id": "y", "weight": 1}],
        criterion("a", 1, "x"),
        criterion("b", 1, "x"),
        criterion("c", 5, "y"),
    )
    assert effective_weights(tree) == pytest.approx({"a": 0.375, "b": 0.375, "c": 0.25})


def test_a_criterion_without_a_category_stands_beside_the_categories():
    tree = rubric([{"id": "x", "weight": 3}], criterion("a", 1, "x"), criterion("b", 1))
    assert effective_weights(tree) == pytest.approx({"a": 0.75, "b": 0.25})


def test_an_inner_category_has_its_share_of_the_one_around_it():
    # outer is all; inner 1 of 4 beside a (3 of 4); b and c halve it
    tree = rubric(
        [{"id": "outer"}, {"id": "inner", "parent": "outer"}],
        criterion("a", 3, "outer"),
        criterion("b", 2, "inner"),
        criterion("c", 2, "inner"),
    )
    assert effective_weights(tree) == pytest.approx({"a": 0.75, "b": 0.125, "c": 0.125})
    assert category_weights(tree)["inner"] == pytest.approx({"b": 0.5, "c": 0.5})


def test_a_penalty_counts_against_the_positive_weights_of_its_group():
    tree = rubric([{"id": "x"}], criterion("a", 4, "x"), criterion("p", -1, "x"))
    assert effective_weights(tree) == pytest.approx({"a": 1, "p": -0.25})


def test_a_category_of_penalties_is_not_compared():
    labels = rubric(
        [], criterion("a", 4, "x"), criterion("p", -1, "x"), criterion("q", -1, "y"), criterion("g", 0, "z")
    )
    assert [*scored_category_weights(labels)] == ["x", "z"]  # z has no weights: its criteria count as 1 each


def test_the_way_down_from_every_group_is_there():
    tree = rubric([{"id": "x", "weight": 2}], criterion("a", 3, "x"))
    found = [(root, step.parent, step.node, step.weight) for root, _, step in tree_steps(tree)]
    assert found == [("", "", "category:x", 2), ("", "x", "criterion:a", 3), ("x", "x", "criterion:a", 3)]


def test_no_category_is_taken_for_a_criterion_whatever_its_name():
    tree = rubric([{"id": "criterion:a"}], criterion("a", 3), criterion("b", 1, "criterion:a"))
    assert {step.node for root, _, step in tree_steps(tree) if root == step.parent == TOP} == {
        "category:criterion:a",
        "criterion:a",
    }


def test_the_score_range_is_that_of_the_worst_levels_with_the_penalty_and_of_the_best_without():
    # a is 0 to 1 and b 0.2 to 0.6, 3 to 1; the penalty is 0.5 to 1:
    # (3 x 0 + 1 x 0.2 - 2 x 1) / 4 to (3 x 1 + 1 x 0.6 - 2 x 0.5) / 4
    better = [{"id": "low", "score": 0.2}, {"id": "high", "score": 0.6}]
    worse = [{"id": "some", "score": 0.5}, {"id": "much", "score": 1}]
    flat = rubric([], criterion("a", 3), criterion("b", 1, levels=better), criterion("p", -2, levels=worse))
    assert score_range(flat) == pytest.approx((-0.45, 0.65))


def test_gates_alone_have_no_score_range():
    assert score_range(rubric([], criterion("g", None, gate=True))) is None


@law_over(
    ("categories", "message"),
    [
        ([{"id": "x", "parent": "z"}], "found the parent 'z', expected one of x"),
        ([{"id": "x", "parent": "x"}], "found 'x' within itself"),
        ([{"id": "x", "parent": "y"}, {"id": "y", "parent": "x"}], "found 'x' within itself"),
        ([{"id": "y"}], "found the category 'x', expected one of y"),
        ([{"id": "x"}, {"id": "y"}], "found 'y' without a positive weight in it"),
        ([{"id": "x"}, {"id": "x"}], "found the ids x, x, expected each id once"),
    ],
)
def test_what_is_no_tree_is_refused(categories: list[dict[str, Any]], message: str):
    with pytest.raises(ValidationError, match=message):
        rubric(categories, criterion("a", 1, "x"))
