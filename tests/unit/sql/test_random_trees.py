"""Random trees with penalties, missing scores and per-case criteria: SQL compared with the definition in Python."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.nightly import matrix

Scores = dict[str, float | None]
POSITIVE = st.sampled_from([0.5, 1.0, 2.0, 3.0])
ANY_WEIGHT = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 4.0])
SCORE = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0]))


@dataclass(frozen=True)
class Tree:
    """Categories and criteria for `build`, with the scores and per-case weights of each output."""

    categories: tuple[dict[str, Any], ...]
    criteria: dict[str, dict[str, Any]]
    own: dict[str, dict[str, dict[str, Any]]]
    scores: dict[str, Scores]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    names = [f"g{index}" for index in range(draw(st.integers(1, 4)))]
    parents = [draw(st.sampled_from([None, *names[:index]])) for index in range(len(names))]
    categories = tuple(
        {"id": name, "weight": draw(POSITIVE), "parent": parent} for name, parent in zip(names, parents, strict=True)
    )
    criteria = {f"{name}_first": {"category": name, "weight": draw(POSITIVE)} for name in names}
    for index in range(draw(st.integers(0, 3))):
        criteria[f"c{index}"] = {"category": draw(st.sampled_from([None, *names])), "weight": draw(ANY_WEIGHT)}
    outputs = [f"o{index}" for index in range(8)]
    own = {name: {"mine": {"weight": draw(ANY_WEIGHT)}} for name in outputs if draw(st.booleans())}
    scores = {name: {held: draw(SCORE) for held in (*criteria, *own.get(name, ()))} for name in outputs}
    return Tree(categories, criteria, own, scores)


def mean_of(
    tree: Tree, group: str | None, own: dict[str, dict[str, Any]], scores: Scores, missing: str
) -> float | None:
    """Weighted mean of a group's members; None if undetermined, or if no member of positive weight has a score."""
    criteria = tree.criteria | (own if group is None else {})
    children = [(c["weight"], scores[name]) for name, c in criteria.items() if c.get("category") == group]
    if missing == "zero":
        children = [(weight, score or 0.0) for weight, score in children]
    inner = [
        (c["weight"], mean_of(tree, c["id"], {}, scores, missing)) for c in tree.categories if c["parent"] == group
    ]
    children = [(weight, score) for weight, score in [*children, *inner] if weight != 0]
    if missing == "null" and any(score is None for _, score in children):
        return None
    present = [(weight, score) for weight, score in children if score is not None]
    base = sum(weight for weight, _ in present if weight > 0)
    return sum(weight * score for weight, score in present) / base if base else None


def bounds_of(tree: Tree, own: dict[str, dict[str, Any]], scores: Scores, missing: str) -> tuple[float | None, ...]:
    """Bounds of the score, with every missing score at its worst and at its best."""
    if missing != "null":
        return (mean_of(tree, None, own, scores, missing),) * 2
    held = tree.criteria | own
    ends = [
        {
            name: float((held[name]["weight"] < 0) != is_best) if score is None else score
            for name, score in scores.items()
        }
        for is_best in (False, True)
    ]
    return tuple(mean_of(tree, None, own, filled, missing) for filled in ends)


def near(expected: float | None) -> Any:
    return None if expected is None else pytest.approx(expected)


@pytest.mark.parametrize("missing", ["null", *matrix(["skip", "zero"])])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees())
def test_scores_agree_with_the_recursive_mean(build, missing, tree):
    outputs = {name: {"model": name} for name in tree.scores}
    settings_of_run = {"categories": tree.categories, "own": tree.own, "outputs": outputs, "missing": missing}
    connection = build(tree.criteria, tree.scores, **settings_of_run)
    whole = connection.execute("select output_id, score, score_low, score_high from output_scores").fetchall()
    for output_id, *found in whole:
        own, scores = tree.own.get(output_id, {}), tree.scores[output_id]
        expected = (mean_of(tree, None, own, scores, missing), *bounds_of(tree, own, scores, missing))
        assert (output_id, found) == (output_id, [near(score) for score in expected])
    parts = connection.execute(
        "select model, category, mean from category_scores where category <> '(none)'"
    ).fetchall()
    for output_id, group, mean in parts:
        expected_mean = mean_of(tree, group, {}, tree.scores[output_id], missing)
        assert (output_id, group, mean) == (output_id, group, near(expected_mean))
