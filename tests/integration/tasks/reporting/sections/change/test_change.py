"""Section "What changed": sentences, differences and their parts, and sides."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.statistics.comparison import measure_pairs
from gradebook.rubrics.statistics.rules import CATEGORY, CRITERION, OVERALL
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.gate import GateFinding, GateRule
from gradebook.tasks.comparing.run_comparison import with_ratings_and_wins
from gradebook.tasks.comparing.sentences import (
    direction_words,
    improvement_sentence,
    outcome_word,
    regression_sentence,
    unchanged_sentence,
)
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.rendering import render
from gradebook.tasks.reporting.report_source import ReportSource, opened_source
from gradebook.tasks.reporting.sections.change import (
    ALL,
    REST,
    AddedPart,
    added_parts,
    decomposition_of,
    forest_of,
    read_change,
)
from tests.support.scored_lake import make_lake, write_scores

LEVELS = [{"id": level, "score": score} for level, score in (("bad", 0), ("half", 0.5), ("good", 1))]


def compared(scope: str, name: str, changes: Sequence[float], category: str | None = None, **more: Any) -> ComparedRow:
    """Row of pairs with scores of 0.5 before, and these changes."""
    before = np.full(len(changes), 0.5)
    figures = measure_pairs(before, before + np.array(changes), np.arange(len(changes)))
    adjusted = replace(figures, p_adjusted=None if scope == OVERALL else figures.p)
    return ComparedRow("m", "m", scope, name, category, PairCounts(0, 0, 0, 0), adjusted, **more)


FELL, ROSE, SWAYED = [-0.2, -0.3] * 10, [0.2, 0.3] * 10, [0.2, -0.2] * 10


def part_row(scope: str, name: str | None, part: float | None, uniform: float | None = None) -> dict[str, Any]:
    return {"scope": scope, "scope_id": name, "part": part, "uniform_part": uniform}


# -------- sentences
def test_regressions_are_named_with_differences_and_a_category_only_without_its_criteria():
    rows = [
        compared(CATEGORY, "voice", FELL),
        compared(CRITERION, "tone", FELL, "voice"),
        compared(CATEGORY, "x", FELL),
    ]
    assert regression_sentence(rows) == "Worse beyond chance: tone -0.250, category x -0.250."


def test_the_overall_score_comes_before_larger_changes():
    rows = [compared(CRITERION, "tone", ROSE), compared(OVERALL, "", [0.1, 0.2] * 20)]
    assert improvement_sentence(rows) == "Better beyond chance: overall +0.150, tone +0.250."


def test_a_penalty_whose_score_rises_got_worse():
    row = compared(CRITERION, "insults", ROSE, is_penalty=True)
    assert (row.is_regression, row.is_improvement) == (True, False)
    assert regression_sentence([row]) == "Worse beyond chance: insults (penalty) +0.250."
    assert (outcome_word(row), direction_words([row])) == ("worse", ("Rose", "Fell"))


def test_without_a_change_the_smallest_detectable_difference_is_given():
    row = compared(OVERALL, "", SWAYED)
    expected = f"20 pairs would find a true overall difference of {row.figures.detectable_diff:.3f} four times in five."
    assert unchanged_sentence([row]) == f"Nothing got worse or better beyond chance. {expected}"


def test_rows_without_a_score_on_both_sides_are_not_called_unchanged():
    same = compared(CRITERION, "length", [0.0] * 5)
    assert unchanged_sentence([compared(OVERALL, "overall", [0.0] * 5), same]) == "No score changed."
    left_out = [compared(OVERALL, "overall", []), *(compared(CRITERION, f"c{n}", []) for n in range(7))]
    expected = "No score changed, but overall{} no score on both sides."
    assert unchanged_sentence([left_out[0], same]) == expected.format(" has")
    assert unchanged_sentence([*left_out, same]) == expected.format(", c0, c1, c2, c3, c4 and 2 more have")


def test_overall_scores_that_are_not_compared_are_not_called_unchanged():
    same, unscored = compared(CRITERION, "length", [0.0] * 5), compared(CRITERION, "tone", [])
    unknown = "overall scores are not compared as the rubrics differ."
    assert unchanged_sentence([same]) == f"No criterion changed, and {unknown}"
    assert unchanged_sentence([same, unscored]) == (
        f"No criterion changed, but tone has no score on both sides, and {unknown}"
    )
    swayed = compared(CRITERION, "length", SWAYED)
    assert unchanged_sentence([swayed]) == f"Nothing got worse or better beyond chance, and {unknown}"


def test_too_few_pairs_are_not_called_unchanged():
    assert unchanged_sentence([compared(OVERALL, "", [])]) == "No case has a score on both sides."
    assert unchanged_sentence([compared(OVERALL, "", [0.5])]) == "Too few pairs to tell a change from chance."


# -------- differences
def test_a_picture_of_differences_shows_hostile_names_as_text():
    figure = forest_of([compared(CRITERION, "</svg><script>alert(1)</script>", FELL)], 1)
    assert figure is not None
    assert "<script" not in str(figure.svg)
    assert "&lt;script" in str(figure.svg)


def test_the_sentence_on_differences_names_the_largest_fall_and_rise():
    figure = forest_of([compared(CRITERION, "tone", FELL), compared(CRITERION, "brief", ROSE)], 1)
    assert figure is not None
    assert figure.sentence.startswith("tone fell most, by 0.250 (95% interval -0.376 to -0.039) and brief rose most")
    assert figure.table.flagged == {0}


def test_without_pairs_nothing_is_drawn():
    assert forest_of([compared(CRITERION, "tone", [])], 1) is None


# -------- decomposition
def test_parts_add_up_to_the_difference_including_missing_verdicts():
    rows = [
        part_row(OVERALL, None, 0.01, 0.02),
        part_row(CRITERION, "a", 0.05, 0.1),
        part_row(CRITERION, "b", -0.2, -0.1),
    ]
    parts = added_parts(rows, -0.14)  # -0.2 + 0.05 + 0.01
    assert [part.name for part in parts] == ["b", "a", "(unscored)"]
    assert sum(part.part for part in parts) == pytest.approx(-0.14, abs=1e-12)


def test_an_unexplained_rest_is_a_part_of_its_own():
    parts = added_parts([part_row(CRITERION, "a", 0.25)], 0.3)
    assert parts[-1] == AddedPart(REST, pytest.approx(0.05), None)


def test_of_many_parts_the_small_ones_are_one_bar_and_the_sum_is_the_same():
    rows = [part_row(CRITERION, f"c{place}", place / 1000, place / 500) for place in range(1, 31)]
    figure = decomposition_of([compared(OVERALL, "", [0.465] * 3)], rows, 1)  # 0.001 + ... + 0.030 = 0.465
    assert figure is not None
    assert "15 others" in str(figure.svg)
    assert figure.table.rows[-1] == (ALL, "+0.465", "+0.930")
    assert figure.sentence.endswith("With uniform weights the difference would be +0.930.")


def test_unknown_parts_with_uniform_weights_are_not_zero():
    figure = decomposition_of([compared(OVERALL, "", [0.25, 0.25])], [part_row(CRITERION, "a", 0.25)], 1)
    assert figure is not None
    assert figure.table.rows[-1] == (ALL, "+0.250", "–")
    assert "The difference with uniform weights is unknown" in figure.sentence


# -------- the section, for runs in a lake
def rubric() -> Rubric:
    criteria = [
        {"id": name, "description": name, "weight": weight, "levels": LEVELS, "method": {"type": "ratings"}}
        for name, weight in (("tone", 3), ("brief", 1))
    ]
    return Rubric.model_validate({"id": "r", "version": "1.0.0", "criteria": criteria})


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportSource]:
    """Run b compared with a: tone falls from 1 to 0.5 in 15 of 20 cases, brief rises from 0.5 to 1 in 10."""
    lake = make_lake(tmp_path_factory.mktemp("change"))
    for run_id in ("a", "b"):
        is_b = run_id == "b"
        scores = [
            {"tone": 0.5 if is_b and case < 15 else 1.0, "brief": 1.0 if is_b and case % 2 else 0.5}
            for case in range(20)
        ]
        write_scores(
            lake, run_id, rubric(), [{"case_id": f"c{case}", "scores": each} for case, each in enumerate(scores)]
        )
    with opened_source(lake, summarise(lake, "b"), "a") as opened:
        yield opened


def test_the_table_has_regressions_first_and_equals_a_hand_calculation(source):
    (pair,) = read_change(source).pairs
    # tone: -0.5 x 15 / 20 = -0.375; brief: 0.5 x 10 / 20 = 0.25; overall: (3 x -0.375 + 0.25) / 4 = -0.21875
    assert [row[:5] for row in pair.table.rows] == [
        ("overall", "worse (rough)", "0.875", "0.656", "-0.219"),
        ("tone", "worse (rough)", "1.000", "0.625", "-0.375"),
        ("brief", "better (rough)", "0.500", "0.750", "+0.250"),
    ]
    assert pair.table.flagged == {0, 1}


def test_the_parts_are_the_weighted_and_the_uniform_changes(source):
    (pair,) = read_change(source).pairs
    assert [row[:3] for row in pair.figures[1].table.rows] == [
        ("tone", "-0.281", "-0.188"),  # 3/4 and 1/2 of -0.375
        ("brief", "+0.062", "+0.125"),
        (ALL, "-0.219", "-0.062"),
    ]


def test_a_sentence_names_the_sides(source):
    assert read_change(source).sides.startswith("A is run a, named by --against, and B is this run.")
    assert read_change(replace(source, is_against=False)).sides.startswith(
        "A is the baseline, run a, and B is this run."
    )


def test_a_failed_rule_is_shown_with_its_reasons(source):
    gate = GateFinding(GateRule("p < 1"), is_failed=True, reasons=("m: p = 0.001",))
    contents = read_change(replace(source, comparison=replace(source.comparison, gate=gate)))
    page = render("parts/change.html.j2", contents=contents)
    assert "Gate failed:</strong> required <code>not (p &lt; 1)</code>, found" in page
    assert "<li>m: p = 0.001</li>" in page


def test_a_run_without_a_comparison_shows_the_command_and_the_reason(source):
    contents = read_change(replace(source, comparison=None, comparison_fault="no case in common"))
    page = render("parts/change.html.j2", contents=contents, run=source.summary.run, source=source)
    assert "--baseline latest" in page
    assert "The run's own models are not compared: no case in common" in page


def test_a_published_comparison_gets_its_wins_on_the_page(source):
    plain = [replace(row, wins=None) for pair in source.comparison.models for row in pair.rows]
    stored = replace(source.comparison, models=(replace(source.comparison.models[0], rows=tuple(plain)),))
    found = with_ratings_and_wins(source.connection, source.lake, stored)
    (overall,) = [row for row in found.models[0].rows if row.scope == OVERALL]
    assert overall.wins is not None and overall.corrected is None  # nobody rated
    sentences = read_change(replace(source, comparison=found)).pairs[0].sentences
    assert any(sentence.startswith("B wins ") for sentence in sentences)


@pytest.mark.nightly
def test_two_models_of_one_run_are_named_as_sides(tmp_path: Path):
    lake = make_lake(tmp_path)
    scores = {"m": {"tone": 1.0, "brief": 1.0}, "n": {"tone": 0.5, "brief": 1.0}}
    outputs = [{"case_id": f"c{case}", "model": name, "scores": scores[name]} for case in range(3) for name in scores]
    write_scores(lake, "one", rubric(), outputs)
    with opened_source(lake, summarise(lake, "one")) as opened:
        assert read_change(opened).sides.startswith("A is n and B is m: the two models of this run.")
