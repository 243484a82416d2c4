"""The score of one output in Python equals the one that SQL gives the same output in a run."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradebook.rubrics.model.rubric import CaseCriterion, Rubric
from gradebook.rubrics.model.scores import ScoreRule

METHOD = {"type": "check", "check": "any"}
SHARES = st.sampled_from([0.25, 0.5, 1.0])
SCORES = st.sampled_from([None, 0.0, 0.25, 0.5, 1.0, 1.0])
WEIGHTS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0])
COLUMNS = ("score", "score_low", "score_high", "failed_gates", "is_passed", "unscored_reason")


@st.composite
def criteria(draw: st.DrawFn, name: str, categories: list[str], *, may_be_optional: bool = False) -> dict[str, Any]:
    is_gate = draw(st.integers(0, 4)) == 0
    has_condition = may_be_optional and draw(st.integers(0, 2)) == 0
    weight = None if is_gate else draw(WEIGHTS)
    may_have_mark = is_gate or (weight or 0) > 0
    return {
        "id": name,
        "description": "Is it so?",
        "method": METHOD,
        "gate": is_gate,
        "weight": weight,
        "required": not (may_be_optional and not is_gate and draw(st.booleans())),
        "threshold": draw(st.one_of(st.none(), SHARES)) if may_have_mark else None,
        "category": draw(st.sampled_from([None, *categories])) if categories else None,
        "applies": "metadata.x = 2" if has_condition else None,
    }


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]], dict[str, Any], dict[str, Any]]:
    """A rubric as in its file, per-case criteria and scores by output, and the outputs of unmet conditions."""
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
    missing = draw(st.sampled_from(["null", "skip", "zero"]))
    may_be_optional = missing == "skip" or not names
    if may_be_optional:
        firsts[0]["required"] = draw(st.booleans())
    others = [
        draw(criteria(f"c{index}", names, may_be_optional=may_be_optional)) for index in range(draw(st.integers(0, 4)))
    ]
    values = {
        "id": "reply",
        "version": "1.0.0",
        "categories": tree,
        "criteria": [*firsts, *others],
        "missing": missing,
        "pass_threshold": draw(st.one_of(st.none(), SHARES)),
        "require_thresholds": draw(st.booleans()),
    }
    outputs = [f"o{index}" for index in range(6)]
    own = {name: [draw(criteria("mine", []))] for name in outputs if draw(st.booleans())}
    ids = [each["id"] for each in values["criteria"]]
    scores = {
        name: {each: draw(SCORES) for each in (*ids, *(one["id"] for one in own.get(name, [])))} for name in outputs
    }
    unmet = {
        each["id"]: [name for name in outputs if draw(st.booleans())]
        for each in values["criteria"]
        if each.get("applies")
    }
    for criterion_id, names_of_one in unmet.items():
        for name in names_of_one:
            scores[name][criterion_id] = None
    return values, own, scores, unmet


@given(world=worlds())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_column_is_the_one_of_sql(build, world):
    values, own, scores, unmet = world
    rubric = Rubric.model_validate(values)
    brought = {name: tuple(CaseCriterion.model_validate(each) for each in listed) for name, listed in own.items()}
    run = {name: getattr(rubric, name) for name in ("missing", "pass_threshold", "require_thresholds")}
    connection = build(
        {each.id: row_of(rubric, each) for each in rubric.criteria},
        scores,
        own={name: {each.id: row_of(rubric, each) for each in listed} for name, listed in brought.items()},
        categories=tuple(values["categories"]),
        unmet=unmet,
        **run,
    )
    rows = connection.execute(f"select output_id, {', '.join(COLUMNS)} from output_scores").fetchall()
    by_sql = {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows}
    rule = ScoreRule(rubric)
    for name, row in by_sql.items():
        not_met = [criterion_id for criterion_id, names in unmet.items() if name in names]
        found = rule.score(scores[name], brought.get(name, ()), not_met)
        assert {column: near(getattr(found, column)) for column in COLUMNS} == row, (name, world)


def row_of(rubric: Rubric, criterion: Any) -> dict[str, Any]:
    return {
        "weight": criterion.own_weight,
        "is_gate": criterion.gate,
        "is_required": criterion.required,
        "threshold": criterion.threshold,
        "gate_threshold": criterion.gate_threshold,
        "category": criterion.category,
    }


def near(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return pytest.approx(value, abs=1e-11) if isinstance(value, float) else value


OPTIONAL = {"tone": {"weight": 3.0}, "tools": {"weight": 1.0, "is_required": False, "threshold": 0.5}}


@pytest.mark.parametrize("missing", ["null", "zero", "skip"])
def test_an_optional_criterion_without_a_score_leaves_the_output_to_the_others(build, missing):
    # tone 0.5 alone, then (3 x 0.5 + 1 x 1) / 4; where tone is missing, only `null` has no score
    scores = {"a": {"tone": 0.5, "tools": None}, "b": {"tone": 0.5, "tools": 1.0}, "c": {"tone": None, "tools": 1.0}}
    connection = build(OPTIONAL, scores, missing=missing, pass_threshold=0.5, require_thresholds=True)
    rows = connection.execute(
        "select score, is_passed, unscored_count from output_scores order by output_id"
    ).fetchall()
    assert rows[:2] == [(0.5, True, 1), (0.625, True, 0)]
    assert rows[2][0] == {"null": None, "zero": 0.25, "skip": 1.0}[missing]
