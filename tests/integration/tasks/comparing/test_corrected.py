"""Gates on differences that people's ratings correct."""

import numpy as np
import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.published.summary import summarise
from tests.support.rated_lake import TEXT, JudgedRun, add_rows, publish_runs
from tests.support.scored_lake import make_lake

TRUTH = (np.random.default_rng(4).random((2, 100)) < 0.7).astype(float)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Two runs of equal models; the judge passes half of what is wrong in new, and people rated 60 outputs of each."""
    found = make_lake(tmp_path_factory.mktemp("corrected"))
    is_kind = np.arange(100) % 2 == 0
    judged = {"old": TRUTH[0], "new": np.where(is_kind, 1.0, TRUTH[1])}
    runs = {name: JudgedRun(scores.tolist(), prefix=name) for name, scores in judged.items()}
    ratings = [
        {
            "output_id": f"{name}{place:02}",
            "criterion_id": "tone",
            "rater": "ann",
            "score": float(TRUTH[side][place]),
            "selection": "random",
            "source": f"rating page, run {name}",
            "rated_at": "2026-11-02",
        }
        for side, name in enumerate(runs)
        for place in range(60)
    ]
    publish_runs(found, runs, {"ratings": ratings})
    return found


RULES = {"gate": ("gate: true\n    max_failure_rate: 0.36", ""), "mean": ("weight: 1", "pass_threshold: 0.65\n")}


def ruled(name):
    """The rubric with this rule, decided on intervals."""
    criterion, rule = RULES[name]
    text = TEXT.replace("weight: 1", criterion).replace("id: reply", f"id: {name}\ndecide: interval\n{rule}")
    return parse_rubric(text, "rubric.yaml")


def test_a_lenient_judge_decides_nothing_alone_where_people_rated(tmp_path):
    # People fail 35 of 100, of which the judge passes 20: the exact upper bound of 15% is 23.5%.
    fails = np.arange(100) % 20 < 7
    judged = np.where(fails & (np.arange(100) % 2 == 0), 1.0, ~fails)
    lake = make_lake(tmp_path)
    runs = {name: JudgedRun(judged.tolist(), prefix=name, rubric=ruled(name)) for name in RULES}
    ratings = [
        {"output_id": f"{name}{place:02}", "criterion_id": "tone", "rater": "ann", "score": float(not fails[place])}
        for name in runs
        for place in range(80)
    ]
    publish_runs(lake, runs, {}, lambda connection: connection.execute("update criterion_scores set pass_rate = mean"))
    alone = {name: summarise(lake, name).verdict.models[0] for name in runs}
    commit(lake, "rate", lambda connection, _version: add_rows(connection, {"ratings": ratings}))
    rated = {name: summarise(lake, name).verdict.models[0] for name in runs}
    assert [each.outcome.value for each in alone.values()] == ["may ship", "may ship"]
    assert [each.outcome.value for each in rated.values()] == ["undecided", "undecided"]
    open_rate = "100 cases can't rule out 48.5% failing the gate tone (15 of 100 outputs, limit 36.0%"
    assert rated["gate"].reason == f"{open_rate}, with the judge's errors)"
    assert rated["mean"].reason == "the mean is 0.650 corrected by ratings and could be 0.753 (needs 0.65)"


def test_a_difference_that_the_judge_made_is_corrected_for_the_gate(lake):
    found = compare_runs(lake, "old", "new", ComparisonOptions(gate=GateRule("corrected_diff_low < -0.02")))
    (overall,) = [pair.overall for pair in found.models]
    corrected = overall.corrected
    truth = TRUTH[1].mean() - TRUTH[0].mean()
    assert overall.figures.mean_diff > truth + 0.1
    assert corrected.corrected_diff == pytest.approx(truth, abs=0.08)
    assert corrected.corrected_diff_low < truth < corrected.corrected_diff_high
    assert found.gate.is_failed is (corrected.corrected_diff_low < -0.02)
    assert found.as_json()["overall"][0]["corrected_diff"] == corrected.corrected_diff
    (tone,) = found.models[0].criteria
    assert tone.corrected == corrected  # the only criterion


@pytest.mark.nightly
def test_without_ratings_of_a_side_the_figure_is_unknown_and_the_gate_fails(lake):
    publish_runs(lake, {"bare": JudgedRun([1.0] * 100, prefix="bare")}, {})
    found = compare_runs(lake, "old", "bare", ComparisonOptions(gate=GateRule("corrected_diff_low < -0.02")))
    assert found.gate.is_failed and "no value of corrected_diff_low" in found.gate.reasons[0]
