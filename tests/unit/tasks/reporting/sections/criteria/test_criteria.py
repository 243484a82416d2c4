"""Section "Criteria": order, heat maps, radar, weights and weak spots."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.charts import Colour
from gradebook.tasks.reporting.rendering import render
from gradebook.tasks.reporting.report_source import Group, MeasuredCriterion, ReportSource, measured_criteria
from gradebook.tasks.reporting.sections.criteria import (
    contributions_map,
    criteria_sentence,
    means_map,
    radar_of,
    read_criteria,
    read_weak_spots,
    tradeoff_of,
)
from gradebook.tasks.reporting.sections.scores import weights_of

M, N = (Group(name, None, name, name, Colour("c1")) for name in ("m", "n & co"))
TABLES = """
create table runs as select 'r' as run_id, 'q' as rubric_id, '1' as rubric_version;
create table rubrics as select rubric_id, rubric_version, '{}' as body from runs where false;
create table category_scores as select 'r' as run_id, 'inner' as category, 'outer' as parent;
create table case_criteria as select 'r' as run_id, 'own' as criterion_id union all select 'r', 'other';
create table output_scores as select 'r' as run_id, '0123456789abcdef0123456789abcdef' as output_id, 'c7' as case_id;
create table weak_spots (
    run_id varchar, model varchar, checkpoint varchar, criterion_id varchar, slice_key varchar, slice_value varchar,
    n int, mean double, ci_low double, ci_high double, rest_mean double, lift double, shrunk_lift double,
    p_adjusted double, searched_count int, gain double, example_ids varchar[]
);
"""


def score(criterion_id: str, mean: float | None, weight: float | None = None, **more: Any) -> dict[str, Any]:
    """Row of criterion_scores for the model m."""
    row = {"model": "m", "checkpoint": None, "criterion_id": criterion_id, "mean": mean, "weight": weight}
    row |= {"ci_low": None, "ci_high": None, "pass_rate": None, "coverage_rate": 1.0, "output_count": 4}
    return row | {"contribution": None if None in (mean, weight) else mean * weight} | more


def criterion(
    name: str, means: Mapping[str, float | None], weight: float | None = 0.5, **more: Any
) -> MeasuredCriterion:
    rows = {(model, None): score(name, mean, weight, model=model, **more) for model, mean in means.items()}
    return MeasuredCriterion(name, (), False, weight is None, weight, rows)


def source_of(criteria: list[dict[str, Any]], rows: list[dict[str, Any]], *groups: Group) -> ReportSource:
    """Source of the run r with these rows of criteria and criterion_scores."""
    connection = duckdb.connect()
    connection.execute(TABLES)
    scores = tuple({"model": group.model, "checkpoint": None, "mean": 0.5} for group in groups)
    summary = RunSummary({"run_id": "r"}, scores, tuple(rows), (), (), (), has_requirement=False, unmet=())
    lake = find_lake("sqlite:nowhere/catalog.sqlite")
    return ReportSource(connection, lake, summary, groups, None, None, tuple(criteria), ())


def in_rubric(criterion_id: str, category: str | None = None, *, is_gate: bool = False) -> dict[str, Any]:
    return {"criterion_id": criterion_id, "category": category, "is_gate": is_gate}


def page_of(source: ReportSource) -> str:
    return render("parts/criteria.html.j2", contents=read_criteria(source))


# -------- the trade-off
def test_the_two_criteria_that_oppose_models_most_are_drawn_with_the_models_that_none_beats():
    third = Group("z", None, "z", "z", Colour("c1"))
    axes = [
        criterion("tone", {"m": 0.9, "n & co": 0.5, "z": 0.4}),
        criterion("truth", {"m": 0.3, "n & co": 0.8, "z": 0.2}),
        criterion("form", {"m": 0.9, "n & co": 0.8, "z": 0.7}),
    ]
    figure = tradeoff_of(axes, [M, N, third])
    assert figure is not None and "opposed on tone and truth" in figure.sentence
    assert [row[-1] for row in figure.table.rows] == ["yes", "yes", "no"]  # z is worse than m on both
    assert tradeoff_of(axes[::2], [M, third]) is None  # m is better on both


# -------- the order
def test_criteria_are_grouped_by_category_and_per_case_criteria_are_last():
    listed = [in_rubric("a", "inner"), in_rubric("b"), in_rubric("c", "outer"), in_rubric("d", "inner")]
    source = source_of(listed, [score(name, 1.0) for name in ("own", "d", "c", "b", "a")], M)
    found = [(each.criterion_id, each.path, each.is_own) for each in measured_criteria(source)]
    assert found == [
        ("a", ("outer", "inner"), False),
        ("d", ("outer", "inner"), False),
        ("c", ("outer",), False),
        ("b", (), False),
        ("own", (), True),
    ]


# -------- the heat maps
def test_a_cell_has_a_number_a_shade_its_coverage_and_a_link_to_examples():
    (group,) = means_map([criterion("a/b", {"n & co": 0.625}, coverage_rate=0.75)], [N]).groups
    (cell,) = group.rows[0].cells
    assert (cell.words, cell.shade, cell.note) == ("0.625", "0.62", "75.0% scored")
    assert cell.link == "#examples?criterion=a%2Fb&model=n%20%26%20co"


def test_a_missing_score_has_no_shade_and_is_not_zero():
    found = means_map([criterion("a", {"m": None})], [M, N]).groups[0].rows[0].cells
    assert [(cell.words, cell.shade, cell.note) for cell in found] == [
        ("–", None, "none of 4 scored"),
        ("–", None, None),
    ]


def test_the_sum_of_contributions_and_the_mean_are_both_shown_if_missing_scores_make_them_differ():
    criteria = [criterion("a", {"m": 0.8}, 0.75), criterion("b", {"m": 0.4}, 0.25), criterion("g", {"m": 1.0}, None)]
    found = contributions_map(criteria, [M], [0.75])  # 0.6 + 0.1 = 0.7
    assert found is not None
    assert [row.criterion_id for row in found.groups[0].rows] == ["a", "b"]
    assert found.sums == (("sum", ("0.700",)), ("mean of the outputs' scores, some with missing scores", ("0.750",)))
    assert contributions_map(criteria, [M], [0.7]).sums == (("sum", ("0.700",)),)


def test_a_penalty_lowers_the_sum_and_is_marked():
    found = contributions_map([criterion("a", {"m": 1.0}, 1.0), criterion("p", {"m": 0.5}, -0.5)], [M], [0.75])
    row = found.groups[0].rows[1]
    assert (row.mark, row.cells[0].words, row.cells[0].is_loss, row.cells[0].shade) == (
        "penalty",
        "-0.250",
        True,
        "0.25",
    )


def test_a_rubric_with_only_gates_has_no_sum():
    page = page_of(source_of([in_rubric("g", is_gate=True)], [score("g", 1.0)], M))
    assert "No criterion of the rubric has a weight" in page
    assert "<small>gate</small>" in page


def test_hostile_names_are_text():
    hostile = "<img src=x onerror=alert(1)>"
    page = page_of(source_of([in_rubric(hostile)], [score(hostile, 1.0, 1.0)], M))
    assert "<img" not in page
    assert "&lt;img src=x" in page


def test_criteria_that_are_left_out_are_counted():
    page = page_of(source_of([], [score("own", 1.0)], M))
    assert "Input rows define 2 per-case criteria; the map shows the 1 that most outputs have." in page
    assert "per-case criteria</th>" in page


# -------- the sentence
def test_the_sentence_names_the_strongest_the_weakest_and_the_most_different_criterion():
    criteria = [criterion("a", {"m": 0.9, "n & co": 0.7}), criterion("b", {"m": 0.1, "n & co": 0.5})]
    expected = "The best mean is a with 0.800, the worst b with 0.300, over 2 models."
    assert criteria_sentence(criteria, [M, N]) == f"{expected} The models differ most on b: n & co 0.500, m 0.100."


def test_a_lower_mean_on_a_penalty_is_stronger():
    criteria = [criterion("a", {"m": 0.5}), criterion("p", {"m": 0.1}, -0.5)]
    assert "The best mean is p with 0.100 (a penalty: lower is better), the worst a" in criteria_sentence(criteria, [M])


def test_equal_means_have_no_strongest():
    criteria = [criterion("a", {"m": 1.0}), criterion("b", {"m": 1.0})]
    assert criteria_sentence(criteria, [M]) == "Each criterion has a mean of 1.000."
    assert criteria_sentence([criterion("a", {"m": None})], [M]) == "No criterion has a score."


def test_a_mean_of_some_criteria_is_not_stated_for_each():
    unscored = [criterion("a", {"m": 0.75}), criterion("b", {"m": None})]
    assert criteria_sentence(unscored, [M]) == "The only criterion with a score is a with 0.750."
    penalty = [criterion("a", {"m": 0.75}), criterion("p", {"m": 0.25}, -0.5)]
    assert "Each criterion" not in criteria_sentence(penalty, [M])


def test_contributions_of_zero_have_a_sum():
    found = contributions_map([criterion("a", {"m": 0.0})], [M], [0.0])
    assert found is not None and found.sums == (("sum", ("0.000",)),)


def test_with_a_sum_below_zero_the_mean_is_marked_as_clipped():
    found = contributions_map([criterion("p", {"m": 0.5}, -1.0)], [M], [0.0])
    assert found is not None and found.sums[1] == ("mean of the outputs' scores, clipped to 0..1", ("0.000",))


# -------- the radar
def test_a_radar_has_one_polygon_per_model_and_inverts_penalties():
    criteria = [criterion("a", {"m": 1.0}), criterion("b", {"m": 0.5}), criterion("p", {"m": 0.2}, -0.5)]
    figure = radar_of(criteria, [M], 1)
    assert not isinstance(figure, str)
    assert figure.table.rows == (("a", "1.000"), ("b", "0.500"), ("1 − p", "0.800"))
    assert figure.sentence == "The rim is a mean score of 1. Nearest to the centre is b with 0.500."


@pytest.mark.parametrize(
    ("count", "mean", "model_count", "expected"),
    [
        (2, 1.0, 1, "No radar chart: the rubric has 2 criteria; a radar needs 3 to 12."),
        (13, 1.0, 1, "No radar chart: the rubric has 13 criteria; a radar needs 3 to 12."),
        (3, 1.0, 9, "No radar chart: the run has 9 models; a radar shows at most 1."),
        (3, None, 1, "No radar chart: no model has a score on every criterion."),
    ],
)
def test_without_a_radar_a_sentence_gives_the_reason(count, mean, model_count, expected):
    assert radar_of([criterion(f"c{place}", {"m": mean}) for place in range(count)], [M], model_count) == expected


# -------- the weights
def test_the_sentence_on_weights_names_the_largest_the_gates_and_the_penalties():
    figure = weights_of(
        [criterion(*each) for each in (("a", {"m": 1}, 0.6), ("g", {"m": 1}, None), ("p", {"m": 1}, -0.2))]
    )
    assert figure is not None
    assert [row[2] for row in figure.table.rows] == ["60.0%", "gate", "-20.0%"]
    sentences = (
        "a has the largest weight: 60.0%. 1 gate without a weight: an output fails if it fails g. "
        "An output that meets p loses points."
    )
    assert figure.sentence == sentences


def test_of_many_criteria_those_with_the_largest_weights_are_drawn():
    figure = weights_of([criterion(f"c{place}", {"m": 1.0}, 0.02 + place / 1e4) for place in range(30)])
    assert figure is not None
    assert figure.sentence.endswith("The table has 6 more, with smaller weights.")
    assert len(figure.table.rows) == 30
    assert re.search(r">c6<", str(figure.svg)) and not re.search(r">c5<", str(figure.svg))


def test_without_weights_there_is_no_picture():
    assert weights_of([criterion("g", {"m": 1.0}, None)]) is None


# -------- the weak spots
def test_weak_spots_are_sorted_by_gain_and_link_to_their_examples():
    source = source_of([], [], M)
    spot = ["r", "m", None, "a", "topic", "refunds", 5, 0.25, 0.1, 0.4, 0.5, -0.25, -0.2]
    tested = [(0.01, 0.05), (None, 0.01), (0.03, 0.02), (0.04, 0.06)]  # the last may be due to chance
    rows = [[*spot, p, 90, gain, ["0123456789abcdef0123456789abcdef"]] for gain, p in tested]
    source.connection.executemany(f"insert into weak_spots values ({', '.join('?' * 17)})", rows)
    found = read_weak_spots(source)
    assert [each.cells[-1] for each in found.spots] == ["+0.030", "+0.010", "gate"]
    assert found.spots[0].examples == (("0123456789ab", "c7"),)
    assert found.sentence.startswith(
        "m has a mean of 0.250 on a where topic is refunds, and 0.500 elsewhere; without the estimated difference"
    )
    assert "90 combinations of a slice and a criterion were compared, and 3 found worse" in found.sentence


def test_slices_that_chance_explains_are_counted_and_not_shown():
    source = source_of([], [], M)
    row = ["r", "m", None, "a", "topic", "refunds", 5, 0.25, 0.1, 0.4, 0.5, -0.25, -0.01, 0.3, 150, 0.01, ["o"]]
    source.connection.execute(f"insert into weak_spots values ({', '.join('?' * 17)})", row)
    found = read_weak_spots(source)
    assert found.spots == ()
    assert found.sentence.startswith("No slice does worse than the other outputs beyond chance. 150 combinations")


def test_a_run_without_weak_spots_shows_none():
    assert read_weak_spots(source_of([], [], M)) is None
    assert read_criteria(source_of([], [], M)) is None


def test_a_picture_has_at_most_eight_models_and_the_table_has_all():
    groups = [replace(M, model=f"m{place}", name=f"m{place}", label=f"m{place}") for place in range(9)]
    source = source_of([in_rubric("a")], [score("a", 0.5, 1.0, model=group.model) for group in groups], *groups)
    contents = read_criteria(source)
    assert contents.means.models == tuple(f"m{place}" for place in range(8))
    assert contents.undrawn[0] == "The map shows the 8 of 9 models with the highest means; the table has all."
    assert len(contents.table.rows) == 9
