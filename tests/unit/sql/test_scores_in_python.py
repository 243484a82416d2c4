"""The score of one output in Python equals the one that SQL gives the same output in a run."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradebook.rubrics.model.rubric import CaseCriterion, Rubric
from gradebook.rubrics.model.scores import ScoreRule

MART = "output_scores"
METHOD = {"type": "check", "check": "any"}
SHARES = st.sampled_from([0.25, 0.5, 1.0])
SCORES = st.sampled_from([None, 0.0, 0.25, 0.5, 1.0, 1.0])
WEIGHTS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0])
COLUMNS = ("score", "score_low", "score_high", "failed_gates", "is_passed")


@st.composite
def criteria(draw: st.DrawFn, name: str, categories: list[str]) -> dict[str, Any]:
    is_gate = draw(st.integers(0, 4)) == 0
    weight = None if is_gate else draw(WEIGHTS)
    may_have_mark = is_gate or (weight or 0) > 0
    return {
        "id": name,
        "description": "Is it so?",
        "method": METHOD,
        "gate": is_gate,
        "weight": weight,
        "threshold": draw(st.one_of(st.none(), SHARES)) if may_have_mark else None,
        "category": draw(st.sampled_from([None, *categories])) if categories else None,
    }


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """A rubric as in its file, per-case criteria and scores by output."""
    names = [f"g{index}" for index in range(draw(st.integers(0, 3)))]
    tree = [
        {"id": name, "weight": draw(st.sampled_from([0.5, 1.0, 2.0])), "parent": draw(st.sampled_from([None, *before]))}
        for index, name in enumerate(names)
        for before in [names[:index]]
    ]
    firsts = [
        {"id": f"first_{name or 'all'}", "description": "Is it?", "method": METHOD, "weight": 1.0, "category": name}
        for name in names or [None]
    ]
    others = [draw(criteria(f"c{index}", names)) for index in range(draw(st.integers(0, 4)))]
    values = {
        "id": "reply",
        "version": "1.0.0",
        "categories": tree,
        "criteria": [*firsts, *others],
        "missing": draw(st.sampled_from(["null", "skip", "zero"])),
        "pass_threshold": draw(st.one_of(st.none(), SHARES)),
        "require_thresholds": draw(st.booleans()),
    }
    outputs = [f"o{index}" for index in range(6)]
    own = {name: [draw(criteria("mine", []))] for name in outputs if draw(st.booleans())}
    ids = [each["id"] for each in values["criteria"]]
    scores = {
        name: {each: draw(SCORES) for each in (*ids, *(one["id"] for one in own.get(name, [])))} for name in outputs
    }
    return values, own, scores


@given(world=worlds())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_column_is_the_one_of_sql(build, world):
    values, own, scores = world
    rubric = Rubric.model_validate(values)
    brought = {name: tuple(CaseCriterion.model_validate(each) for each in listed) for name, listed in own.items()}
    run = {name: getattr(rubric, name) for name in ("missing", "pass_threshold", "require_thresholds")}
    connection = build(
        {each.id: row_of(rubric, each) for each in rubric.criteria},
        scores,
        own={name: {each.id: row_of(rubric, each) for each in listed} for name, listed in brought.items()},
        categories=tuple(values["categories"]),
        **run,
    )
    rows = connection.execute(f"select output_id, {', '.join(COLUMNS)} from output_scores").fetchall()
    by_sql = {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows}
    rule = ScoreRule(rubric)
    for name, row in by_sql.items():
        found = rule.score(scores[name], brought.get(name, ()))
        assert {column: near(getattr(found, column)) for column in COLUMNS} == row, (name, world)


def row_of(rubric: Rubric, criterion: Any) -> dict[str, Any]:
    return {
        "weight": rubric.weight_of(criterion),
        "is_gate": criterion.gate,
        "threshold": criterion.threshold,
        "gate_threshold": criterion.gate_threshold,
        "category": criterion.category,
    }


def near(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return pytest.approx(value, abs=1e-11) if isinstance(value, float) else value
