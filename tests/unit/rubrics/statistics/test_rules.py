"""The language of --fail-if: what it takes, what it refuses and where, and what the unknown does to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.rules import (
    RuleError,
    holds,
    parse_rule,
    refuse_unknown_ids,
    unknown_figures,
    used_figures,
)
from gradebook.rubrics.text.remarks import figure_words, unknown_figure_words
from tests.support.law_over import law_over

NAMES = {
    "overall": ("mean_diff", "p", "p_mcnemar"),
    "criterion": ("mean_diff", "p", "p_adjusted"),
    "category": ("mean_diff", "p"),
}


class Table:
    """Figures by scope and id."""

    def __init__(self, **figures: dict[str, dict[str, float | Interval | None]]) -> None:
        self.figures = figures

    def ids(self, scope: str) -> list[str]:
        return list(self.figures.get(scope, {}))

    def figure(self, scope: str, scope_id: str, figure: str) -> float | Interval | None:
        return self.figures.get(scope, {}).get(scope_id, {}).get(figure)


FOUND = Table(
    overall={"": {"mean_diff": -0.03, "p": 0.04, "p_mcnemar": None}},
    criterion={"tone": {"mean_diff": -0.1, "p_adjusted": 0.2}, "a b": {"mean_diff": 0.1, "p_adjusted": 0.01}},
)


@law_over(
    ("text", "expected"),
    [
        ("mean_diff < -0.01 and p < 0.05", True),
        ("mean_diff < -0.01 and not p < 0.05", False),
        ("p>=.04", True),
        ("0.05 > p", True),
        ("p = 0.04 and p == 4e-2 and p != 1", True),
        ("p > 1 or mean_diff < 0 and p < 0.01", False),
        ("(p > 1 or mean_diff < 0) and p < 0.05", True),
        ("not not p < 0.05", True),
        ("criterion.tone.mean_diff <= -0.1", True),
        ('criterion."a b".mean_diff > 0', True),
        ("any criterion (mean_diff < 0 and p_adjusted < 0.05)", False),
        ("any criterion (mean_diff < 0) and any criterion (p_adjusted < 0.05)", True),
    ],
)
def test_a_rule_holds_or_not(text, expected):
    assert holds(parse_rule(text, NAMES), FOUND) is expected


@law_over(
    ("text", "expected"),
    [
        ("p_mcnemar < 0.05", None),
        ("not p_mcnemar < 0.05", None),
        ("p_mcnemar < 0.05 and p < 0.01", False),
        ("p_mcnemar < 0.05 and p < 0.05", None),
        ("p_mcnemar < 0.05 or p < 0.05", True),
        ("p_mcnemar < 0.05 or p < 0.01", None),
        ("any category (p < 0.05)", None),  # there is none
        ("not any category (p < 0.05)", None),
        ("any category (p < 0.05) and p > 1", False),
    ],
)
def test_an_unknown_figure_leaves_open_what_it_decides_alone(text, expected):
    assert holds(parse_rule(text, NAMES), FOUND) is expected


@law_over(
    ("text", "place", "words"),
    [
        ("meen_diff < 1", 1, "found 'meen_diff', expected 'mean_diff' or one of p, p_mcnemar"),
        ("not_wors_by(0.02)", 1, "found 'not_wors_by', expected `not_worse_by(0.02)` or a figure"),
        ("p_adjusted < 1", 1, "found 'p_adjusted', expected"),
        ("criterion.tone.p_mcnemar < 1", 1, "expected one of mean_diff, p, p_adjusted"),
        ("p <", 4, "found the end, expected a number"),
        ("p < 0.05 and", 13, "found the end, expected a name"),
        ("(p < 1", 7, "found the end, expected `and`, `or` or `)`"),
        ("p < 1)", 6, "found ')', expected `and`, `or` or the end"),
        ("any p < 1", 5, "found 'p', expected `criterion (...)`"),
        ("p < p", 5, "found 'p', expected a number"),
        ("p < 1 ; p", 7, "found ';', expected"),
        ("", 1, "found the end"),
        ("criterion.p < 1", 1, "expected criterion.ID.FIGURE"),
        ("not " * 60 + "p < 1", 205, "expected at most 50"),
        ("p < 1e999", 5, "found '1e999', expected a finite number"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_place(text, place, words):
    with pytest.raises(RuleError) as refused:
        parse_rule(text, NAMES)
    assert str(refused.value).startswith(f"--fail-if: at character {place}: ")
    assert words in str(refused.value)


def test_an_id_that_is_not_compared_is_refused_with_the_nearest():
    rule = parse_rule("p < 1 and criterion.tune.p < 1", NAMES)
    with pytest.raises(RuleError, match="at character 11: found the criterion 'tune', expected 'tone'"):
        refuse_unknown_ids(rule, {"criterion": ["tone", "facts"], "category": []})


def test_a_rule_says_what_it_looked_at():
    rule = parse_rule("p < 0.05 or any criterion (mean_diff < 0)", NAMES)
    assert tuple(map(figure_words, used_figures(rule, FOUND))) == ("p = 0.04", "criterion.tone.mean_diff = -0.1")


def test_an_any_that_nothing_meets_says_all_that_it_looked_at():
    rule = parse_rule("not any criterion (mean_diff < -1)", NAMES)
    assert tuple(map(figure_words, used_figures(rule, FOUND))) == (
        "criterion.tone.mean_diff = -0.1",
        "criterion.a b.mean_diff = 0.1",
    )


def test_an_any_without_anything_to_look_at_is_named_as_unknown():
    assert tuple(map(unknown_figure_words, unknown_figures(parse_rule("any category (p < 0.05)", NAMES), FOUND))) == (
        "category to compare",
    )


def test_a_rule_says_what_was_not_known():
    rule = parse_rule("p < 0.05 and p_mcnemar < 1 and any criterion (p < 1)", NAMES)
    assert tuple(map(unknown_figure_words, unknown_figures(rule, FOUND))) == (
        "p_mcnemar",
        "criterion.tone.p",
        "criterion.a b.p",
    )


@given(st.text(alphabet='p<>=!()andornotmean_diff criterion."0.5-', max_size=40))
def test_any_text_is_a_rule_or_refused(text):
    try:
        holds(parse_rule(text, NAMES), FOUND)
        position = 1
    except RuleError as refused:
        position = int(refused.place.rpartition(" ")[2])
    assert 1 <= position <= len(text) + 1


@pytest.mark.parametrize(("low", "expected"), [(-0.019, False), (-0.02, True), (-0.03, True), (None, None)])
def test_not_worse_fails_unless_the_interval_shows_it(low, expected):
    names = NAMES | {"overall": ("mean_diff", "diff_low")}
    assert holds(parse_rule("not_worse_by(0.02)", names), Table(overall={"": {"diff_low": low}})) is expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-0.019, 0.019, True), (-0.019, 0.02, False), (-0.02, 0.0, False), (-0.01, None, None)],
)
def test_equivalence_needs_the_interval_within_the_margin(low, high, expected):
    names = NAMES | {"overall": ("diff_low", "diff_high")}
    rule = parse_rule("equivalent_within(0.02)", names, is_required=True)
    assert holds(rule, Table(overall={"": {"diff_low": low, "diff_high": high}})) is expected


@pytest.mark.parametrize(
    "text", ["not_worse_by(0)", "not_worse_by(-0.02)", "not not_worse_by(0.02)", "not_worse_by 0.02", "not_worse_by(p)"]
)
def test_a_margin_is_a_number_above_zero_and_is_not_negated(text):
    with pytest.raises(RuleError):
        parse_rule(text, NAMES | {"overall": ("p", "diff_low")})


@pytest.mark.parametrize(("low", "expected"), [(-0.019, True), (-0.02, False), (None, None)])
def test_a_required_margin_holds_if_the_interval_shows_it(low, expected):
    names = NAMES | {"overall": ("mean_diff", "diff_low")}
    rule = parse_rule("not_worse_by(0.02)", names, is_required=True)
    assert holds(rule, Table(overall={"": {"diff_low": low}})) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every criterion (mean_diff > -0.2)", True),
        ("every criterion (mean_diff > 0)", False),
        ("every category (mean_diff > 0)", None),  # there is none
    ],
)
def test_every_criterion_has_to_meet_a_rule(text, expected):
    assert holds(parse_rule(text, NAMES, is_required=True), FOUND) is expected


def test_an_every_names_what_does_not_meet_it():
    assert tuple(map(figure_words, used_figures(parse_rule("every criterion (mean_diff > 0)", NAMES), FOUND))) == (
        "criterion.tone.mean_diff = -0.1",
    )


@law_over(
    ("text", "expected"),
    [
        ("mean_diff > -0.04", True),
        ("mean_diff > 0", None),
        ("mean_diff > 0.02", False),  # the highest is no more
        ("mean_diff >= 0.02", None),
        ("mean_diff = 0", None),
        ("mean_diff != 0.5", True),
        ("not mean_diff < 0.5", False),
        ("mean_diff > 0 or p < 0.05", True),
    ],
)
def test_a_figure_with_a_range_decides_only_what_holds_over_all_of_it(text, expected):
    found = Table(overall={"": {"mean_diff": Interval(-0.03, 0.02), "p": 0.04}})
    rule = parse_rule(text, NAMES)
    assert holds(rule, found) is expected
    assert tuple(map(unknown_figure_words, unknown_figures(rule, found))) == (
        ("mean_diff (-0.03 to 0.02)",) if expected is None or " or " in text else ()
    )
