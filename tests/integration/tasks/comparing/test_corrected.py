"""Gates on differences that people's ratings correct."""

import numpy as np
import pytest

from gradebook.tasks.comparing.compare import Asked, compare_runs
from gradebook.tasks.comparing.gate import GateRule
from tests.support.rated_lake import JudgedRun, publish_runs
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


def test_a_difference_that_the_judge_made_is_corrected_for_the_gate(lake):
    found = compare_runs(lake, "old", "new", Asked(gate=GateRule("corrected_diff_low < -0.02")))
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
    found = compare_runs(lake, "old", "bare", Asked(gate=GateRule("corrected_diff_low < -0.02")))
    assert found.gate.is_failed and "no value of corrected_diff_low" in found.gate.reasons[0]
