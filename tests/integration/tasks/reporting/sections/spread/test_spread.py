"""Section "Spread": its numbers equal the marts and hand calculations."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.rendering import render
from gradebook.tasks.reporting.report_source import ReportSource, opened_source
from gradebook.tasks.reporting.sections.spread import (
    left_out_words,
    read_boxes,
    read_levels,
    read_outliers,
    read_spread,
)
from gradebook.tasks.reporting.sections.thresholds import Thresholds, plot_of_curves, read_thresholds
from tests.support.scored_lake import PAGE_MARTS, make_lake, write_runs

HOSTILE = "</script><script>alert(1)</script>"
LEVELS = [{"id": "bad", "score": 0.0}, {"id": "so_so", "label": "So so", "score": 0.5}, {"id": "good", "score": 1.0}]


def make_rubric(name: str, *criteria: Mapping[str, Any], **fields: Any) -> Rubric:
    shared = {"description": "?", "levels": LEVELS, "method": {"type": "ratings"}}
    held = [shared | criterion for criterion in criteria]
    return Rubric.model_validate({"id": name, "version": "1.0.0", "criteria": held} | fields)


IN_TWO = [{"id": "a", "category": "x", "weight": 3}, {"id": "b", "category": "x"}, {"id": "c", "category": "y"}]
TREE = [{"id": "a", "category": "outer"}, {"id": "b", "category": "inner"}, {"id": "c", "category": "side"}]
CATEGORIES = [{"id": "outer", "weight": 2}, {"id": "inner", "weight": 3, "parent": "outer"}, {"id": "side"}]
PENALTY = {"id": "d", "category": HOSTILE, "weight": -2}
RUBRICS = {
    "worked": make_rubric("two", *IN_TWO, pass_threshold=0.7),
    "later": make_rubric("two", *IN_TWO, pass_threshold=0.7),
    "tree": make_rubric("tree", *TREE, categories=CATEGORIES, missing="skip"),
    "points": make_rubric("points", *IN_TWO, PENALTY, missing="zero"),
    "flat": make_rubric("flat", {"id": "a"}),
    "empty": make_rubric("empty", {"id": "a"}),
    "nearly": make_rubric("nearly", {"id": "a"}),
    "wide": make_rubric("wide", *({"id": name, "category": f"in {name}"} for name in "abcdefgh")),
}
# Scores on a, b, c and d of each output, by model; the overall score is (3a + b + c) / 5.
WORKED_A = [(1, 0, 0.5), (1, 1, 1), (0.5, 1, 1), (1, 1, None), (0, 0, 0)]  # 0.7, 1, 0.7, unscored, 0
UNEVEN = [(0, 1, 0.5, 0), (0.5, 1, 1, 1), (1, None, 0, 0), (1, 1, None, 1), (None, 0, 1, 0.5)]
SCORES: dict[str, dict[str, list[tuple[float | None, ...]]]] = {
    "worked": {"A": WORKED_A, "B": [(1, 1, 0.5), (0.5, 0.5, 1)]},  # B: 0.9, 0.6
    "later": {"A": [(1, 1, 1)]},
    "tree": {"A": UNEVEN, "B": UNEVEN[2:]},
    "points": {HOSTILE: UNEVEN, "B": UNEVEN[:2]},
    "flat": {"A": [(0,), (0.4,), (0.4,), (1,)]},
    "empty": {"A": [(None,)]},
    "nearly": {"A": [*[(1,)] * 249, (0,)]},
    # h is never scored, so there is no overall score.
    "wide": {f"m{number}": [(*[0.5] * 7, None)] for number in range(8)},
}
OWN = {"tree": {f"own_{number}": 1.0 for number in range(15)}}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ReportSource]]:
    """Source of each run of `RUBRICS`; the run `later` is compared with `worked`."""
    lake = make_lake(tmp_path_factory.mktemp("spread"))
    runs = {}
    for run_id, rubric in RUBRICS.items():
        own = OWN.get(run_id, {})
        names = [*(criterion.id for criterion in rubric.criteria), *own]
        outputs = [
            {"model": model, "case_id": str(case), "scores": dict(zip(names, scores, strict=False)), "own": own}
            for model, rows in SCORES[run_id].items()
            for case, scores in enumerate(rows)
        ]
        runs[run_id] = (rubric, outputs)
    write_runs(lake, runs, PAGE_MARTS)
    with ExitStack() as opened:
        against = {"later": "worked"}
        yield {
            name: opened.enter_context(opened_source(lake, summarise(lake, name), against.get(name)))
            for name in RUBRICS
        }


def thresholds_of(sources: Mapping[str, ReportSource], run_id: str) -> Thresholds:
    found = read_thresholds(sources[run_id], RUBRICS[run_id])
    assert found is not None
    return found


def test_a_box_has_the_quartiles_of_the_outputs(sources: Mapping[str, ReportSource]):
    figure = read_boxes(sources["worked"])
    assert figure is not None
    # A's four scores in y: 0, 0.5, 1, 1. The 5% quantile is 0.15 of the way from the first to the second, 25% is 0.75.
    assert ("y", "A", "0.625", "0.075", "0.375", "0.750", "1.000", "1.000", "4") in figure.table.rows
    assert [row[:2] for row in figure.table.rows[:2]] == [("Overall", "B"), ("Overall", "A")]


def test_the_sentence_on_boxes_names_the_widest_spread(sources: Mapping[str, ReportSource]):
    figure = read_boxes(sources["worked"])
    assert figure is not None
    # in y for A; its outputs in x: 0, 0.625, 0.75, 1, 1
    assert figure.sentence.startswith(
        "The spread is largest in y for A: the middle half of its outputs scores 0.375 to 1.000."
    )


def test_a_nested_category_has_both_names(sources: Mapping[str, ReportSource]):
    figure = read_boxes(sources["tree"])
    assert figure is not None
    assert {"outer", "outer / inner", "side"} < {row[0] for row in figure.table.rows}


def test_a_rubric_without_categories_has_one_box_per_model(sources: Mapping[str, ReportSource]):
    figure = read_boxes(sources["flat"])
    assert figure is not None
    assert [row[:2] for row in figure.table.rows] == [("Overall", "A")]


def test_without_overall_scores_only_categories_are_drawn(sources: Mapping[str, ReportSource]):
    figure = read_boxes(sources["wide"])
    assert figure is not None
    # 48 boxes of 8 models are 6 categories
    assert " The picture shows the 6 weakest of 7 categories. " in figure.sentence


def test_the_weakest_category_and_criterion_come_first(sources: Mapping[str, ReportSource]):
    categories = read_levels(sources["worked"])
    # x: (3.375 + 1.5) / 7 = 0.696, b in it 4.5 / 7 and a 5 / 7; y: (2.5 + 1.5) / 6 = 0.667
    assert [category.name for category in categories] == ["y", "x"]
    assert list(dict.fromkeys(row[0] for row in categories[1].figure.table.rows)) == ["b", "a"]
    assert categories[1].figure.sentence.startswith("Furthest from its best score is b, worst for A: ")


def test_shares_are_of_all_outputs_including_unscored_ones(sources: Mapping[str, ReportSource]):
    weakest = read_levels(sources["worked"])[0].figure
    words = "0 to 0.2 20.0%, 0.4 to 0.6 20.0%, 0.8 to 1 40.0%, unscored 20.0%."
    assert weakest.sentence == f"c is worst for A: {words}"
    assert ("c", "A", "unscored", "20.0%", "1") in weakest.table.rows


def test_a_label_has_100_percent_only_if_exact(sources: Mapping[str, ReportSource]):
    # 249 of 250 is 99.6%
    (category,) = read_levels(sources["nearly"])
    assert "99.6%<" in str(category.figure.svg)
    assert " 100%<" not in str(category.figure.svg)


def test_on_a_penalty_the_highest_score_is_the_worst(sources: Mapping[str, ReportSource]):
    (figure,) = [each.figure for each in read_levels(sources["points"]) if each.name == HOSTILE]
    # d: 0, 1, 0, 1, 0.5 and, for B, 0, 1: both means are 0.5
    assert figure.sentence.startswith("d is worst for ")
    (figure,) = [each.figure for each in read_levels(sources["points"]) if each.name == "x"]
    assert figure.sentence.startswith("Furthest from its best score is a, worst for B: ")


def test_surplus_per_case_criteria_are_counted_and_not_shown(sources: Mapping[str, ReportSource]):
    assert left_out_words(sources["tree"]) == "3 more per-case criteria are not shown."
    assert left_out_words(sources["worked"]) is None


def test_the_page_begins_at_the_threshold_of_the_rubric(sources: Mapping[str, ReportSource]):
    found = thresholds_of(sources, "worked")
    assert found.sentence == "75% of the outputs of A meet 0.700, 50% of those of B."
    assert found.plot.x(found.grid, 0) == found.plot.left


def test_without_a_threshold_the_page_begins_at_the_median(sources: Mapping[str, ReportSource]):
    assert thresholds_of(sources, "flat").sentence == "75% of the outputs of A meet 0.400."


@pytest.mark.parametrize("run_id", ["worked", "points", "tree"])
def test_counts_at_each_threshold_are_those_of_sql(run_id: str, sources: Mapping[str, ReportSource]):
    found = thresholds_of(sources, run_id)
    met = """
    select model, list(score) as scores from output_scores where run_id = ? and score is not null group by model
    """
    for row in sources[run_id].rows(met, run_id):
        (meeting,) = [each for each in found.meetings if each.name == row["model"]]
        at = [found.grid.at(place) for place in range(found.grid.count)]
        assert meeting.counts == tuple(sum(score >= t - 1e-9 for score in row["scores"]) for t in at)


def test_a_baseline_of_the_same_rubric_is_drawn_dashed_and_counted(sources: Mapping[str, ReportSource]):
    found = thresholds_of(sources, "later")
    assert found.sentence == "100% of the outputs of A meet 0.700, 75% of those of A in worked."
    assert "Dashed: the baseline worked." in found.figure.sentence
    assert 'stroke-dasharray="5,3"' in str(found.figure.svg)


def test_a_run_without_scores_has_only_levels(sources: Mapping[str, ReportSource]):
    contents = read_spread(sources["empty"])
    assert contents is not None
    assert (contents.thresholds, contents.boxes) == (None, None)
    assert [row[2:] for row in contents.levels[0].figure.table.rows] == [("unscored", "100.0%", "1")]
    assert "No output has a score" in render("parts/spread.html.j2", contents=contents, anchors=())


def test_hostile_names_are_text_in_the_page_and_in_the_counts(sources: Mapping[str, ReportSource]):
    page = render("parts/spread.html.j2", contents=read_spread(sources["points"]), anchors=())
    assert "<script>alert" not in page
    assert page.count("</script>") == 1


def test_the_plot_is_at_the_position_of_the_specification(sources: Mapping[str, ReportSource]):
    svg, plot = str(thresholds_of(sources, "worked").figure.svg), plot_of_curves()
    assert f'viewBox="0 0 {plot.whole_width} {plot.whole_height}"' in svg
    assert f"translate({plot.left},{plot.top})" in svg


def test_outliers_lie_far_outside_the_box_and_lead_to_their_outputs(sources: Mapping[str, ReportSource]):
    (low,), (high,), none = (read_outliers(sources[name]) for name in ("nearly", "flat", "later"))
    # nearly: 249 outputs with 1, one with 0; flat: 0, 0.4, 0.4, 1, so 0.3 to 0.55 - fences at -0.075 and 0.925
    assert (low.words, [output[1:] for output in low.outputs]) == ("A: 1 outlier", [("249", "0.000", "249")])
    assert [output[1:] for output in high.outputs] == [("3", "1.000", "3")]
    assert none == ()
    (anchor, _, _, _) = low.outputs[0]
    contents = read_spread(sources["nearly"])
    assert f'<a href="#o-{anchor}">249</a> 0.000' in render("parts/spread.html.j2", contents=contents, anchors={anchor})
    assert f"249 (output {anchor}) 0.000" in render("parts/spread.html.j2", contents=contents, anchors=set())
