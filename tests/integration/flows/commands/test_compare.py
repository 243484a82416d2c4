"""`gradebook compare`: terminal output, exit codes of rules, and refused options."""

from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.comparing.gate import FIGURES
from tests.support.nightly import matrix
from tests.support.scored_lake import COMPARED_MARTS, make_lake, write_runs, write_scores

LEVELS = [{"id": "bad", "score": 0, "description": "x"}, {"id": "good", "score": 1, "description": "x"}]
SHARED = {"description": "?", "method": {"type": "ratings"}, "levels": LEVELS}
RUBRIC = Rubric.model_validate(
    {"id": "r", "version": "1.0.0", "criteria": [{"id": name, **SHARED} for name in ("facts", "tone")]}
)


def rows(*models: str, is_worse: bool) -> list[dict[str, Any]]:
    """30 cases: all facts right; bad tone in 10 or 25 of them."""
    return [
        {"case_id": f"c{case}", "model": model, "scores": {"facts": 1.0, "tone": float(case >= 10 + 15 * is_worse)}}
        for case in range(30)
        for model in models
    ]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Lake option of a lake with run a, run b (worse), and run both of two models, the second worse."""
    found = make_lake(Path(tmp_path_factory.mktemp("lake")))
    runs = {
        "a": rows("m", is_worse=False),
        "b": rows("m", is_worse=True),
        "again": rows("m", is_worse=False),
        "both": rows("old", is_worse=False) + rows("new", is_worse=True),
    }
    write_runs(found, {run_id: (RUBRIC, given) for run_id, given in runs.items()}, COMPARED_MARTS)
    return f"--lake=sqlite:{found.address}"


@pytest.fixture
def compare(gradebook, lake):
    return lambda *words: gradebook("compare", *words, "--resamples", "200", lake)


def test_regressions_come_first_with_their_p(compare):
    shown = compare("a", "b").out
    assert shown.index("overall") < shown.index("tone") < shown.index("facts")
    assert "-0.500" in shown and "<0.001" in shown


def test_rows_whose_means_leave_out_pairs_are_named(gradebook, tmp_path):
    found, body = make_lake(tmp_path / "gaps"), RUBRIC.model_dump(mode="json", exclude_unset=True)
    skipping = Rubric.model_validate(
        body | {"missing": "skip", "criteria": [each | {"category": "reply"} for each in body["criteria"]]}
    )
    given = {run_id: rows("m", is_worse=run_id == "b") for run_id in "ab"}
    for row in given["a"][:2]:
        row["scores"] |= {"tone": None}
    write_runs(found, {run_id: (skipping, each) for run_id, each in given.items()}, COMPARED_MARTS)
    shown = gradebook("compare", "a", "b", "--resamples", "0", f"--lake=sqlite:{found.address}").out
    remarks = [line.split(" B - A")[0] for line in shown.splitlines() if " pairs have both scores." in line]
    assert remarks == [  # the overall score skips tone
        "overall: 30 of 30 pairs have both scores. 2 lack a part of the score in A and 0 in B:",
        *(
            f"{name}: 28 of 30 pairs have both scores. 2 lack a score in A and 0 in B:"
            for name in ("category reply", "tone")
        ),
    ]


def test_the_terminal_shows_parts_cases_and_the_smallest_difference(compare):
    shown = compare("a", "b").out
    assert "overall difference by criterion" in shown
    assert "cases that lost most" in shown
    assert "30 pairs would find a true overall difference of" in shown
    assert "A dominates B" in shown


def test_equal_runs_are_told_in_a_sentence_and_not_in_tables(compare):
    shown = compare("a", "again", "--require", "not_worse_by(0.02)").out
    assert "m: A and B have the same scores, criterion by criterion, on 30 pairs." in shown
    assert "p (Wilcoxon)" not in shown
    assert "gate failed: required not_worse_by(0.02)" in shown  # thirty equal pairs are too few to show it
    assert "p (Wilcoxon)" in compare("a", "b").out


def test_a_share_at_a_score_is_shown(compare):
    assert "At or below 0.5: 33.3% of A, 83.3% of B." in compare("a", "b", "--share-at", "0.5").out


@pytest.mark.parametrize(
    ("gate", "code", "words"),
    [
        (("--fail-if", "mean_diff < -0.1"), 1, "failed: required not (mean_diff < -0.1), found mean_diff = -0.25"),
        (("--fail-if", "mean_diff < -0.5"), 0, "passed: required not (mean_diff < -0.5), found mean_diff = -0.25"),
        (("--fail-if", "p_mcnemar < 0.05"), 1, "undecided: required not (p_mcnemar < 0.05), found no value of p_mcne"),
        (("--require", "not_worse_by(0.02)"), 1, "failed: required not_worse_by(0.02), found diff_low = "),
        *matrix(
            [
                (("--fail-if", "not_worse_by(0.02)"), 1, "failed: required not_worse_by(0.02), found diff_low = "),
                (("--require", "not_worse_by(0.9)"), 0, "passed: required not_worse_by(0.9), found diff_low = "),
                (("--require", "p_mcnemar > 0.05"), 1, "undecided: required p_mcnemar > 0.05, found no value of p_mcn"),
            ]
        ),
        (
            ("--fail-if", "mean_diff < -0.5", "--require", "mean_diff > 0"),
            1,
            "failed: required not (mean_diff < -0.5) and (mean_diff > 0), found mean_diff = -0.25",
        ),
    ],
)
def test_a_gate_sets_the_exit_code(compare, gate, code, words):
    finished = compare("a", "b", *gate)
    shown = " ".join(finished.out.split())
    assert (finished.code, shown.count(f"gate {words}")) == (code, 2), finished.err  # in the verdict and at the end


def test_without_a_run_two_models_of_the_latest_are_compared(gradebook, tmp_path):
    lake = make_lake(tmp_path)
    for run_id, given in {
        "a": rows("m", is_worse=False),
        "both": rows("old", is_worse=False) + rows("new", is_worse=True),
    }.items():
        write_runs(lake, {run_id: (RUBRIC, given)}, COMPARED_MARTS)
    assert "new is worse than old" in gradebook("compare", "--model-a", "old", f"--lake=sqlite:{lake.address}").out


def test_a_rule_is_in_the_json_with_its_reasons(compare):
    found = compare("a", "b", "--fail-if", "worse_rate > 0.4", "--json")
    assert (found.code, found.json["gate"]["is_failed"]) == (1, True)
    assert found.json["gate"]["reasons"] == ["worse_rate = 0.5"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("a", "b", "--require", "p > 0.5 and criterion.brif.p > 0"),
            "--require: at character 13: found the criterion 'brif', expected",
        ),
        (
            ("a", "b", "--fail-if", "meen_diff < 0"),
            "at character 1: found 'meen_diff', expected 'mean_diff'",
        ),
        (("a",), "found one run of the models m, expected a second run, or two of these with --model-a and --model-b"),
        (("both", "a", "--model-a", "older"), "--model-a: found 'older', expected a model of both: new, old"),
        (("a", "b", "--resamples", "-1"), "--resamples: found -1, expected 0 to 1,000,000"),
        (("a", "b", "--share-at", "nan"), "--share-at: found nan, expected a finite number"),
        (("a", "a"), "compare: found run a on both sides"),
    ],
)
def test_invalid_options_are_refused(compare, gradebook, lake, words, told):
    finished = gradebook("compare", *words, lake)
    assert (finished.code, finished.out) == (2, "")
    assert told in finished.err


def test_a_part_of_a_name_that_one_model_has_is_enough(compare):
    assert "new is worse than old" in compare("both", "--model-a", "OL", "--model-b", "ne").out


def test_two_models_of_one_run_are_compared_as_named(compare):
    found = compare("both", "--model-a", "old", "--model-b", "new", "--json").json
    (row,) = found["overall"]
    assert (row["model_a"], row["model_b"], row["mean_diff"]) == ("old", "new", -0.25)


def test_the_json_has_the_sum_of_the_decomposition(compare):
    found = compare("a", "b", "--json").json
    parts = {part["criterion_id"]: part["part"] for part in found["decomposition"]}
    assert parts == {"facts": 0.0, "tone": pytest.approx(-0.25)}
    assert [row["id"] for row in found["regressions"]] == ["", "tone"]


def test_the_page_about_comparing_names_every_figure_of_a_rule():
    page = (Path(__file__).parents[4] / "docs" / "comparing.md").read_text(encoding="utf-8")
    names = {name for figures in FIGURES.values() for name in figures if not name.startswith(("worse_", "tied_"))}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


@pytest.mark.nightly
def test_changes_in_one_direction_alone_are_reported(gradebook, tmp_path):
    lake = make_lake(tmp_path)
    few = rows("m", is_worse=False)
    write_scores(lake, "a", RUBRIC, few)
    write_scores(lake, "b", RUBRIC, [row | {"scores": {"facts": 0.0, "tone": 1.0}} for row in few[10:12]] + few[12:])
    shown = gradebook("compare", "a", "b", "--lake", f"sqlite:{lake.address}").out
    assert "facts: none of 20 pairs rose: the interval and p allow for rare gains that so few can't show." in shown
