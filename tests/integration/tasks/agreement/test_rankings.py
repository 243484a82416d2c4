"""Rankings of a run's models by people's choices and by the scores, and wins within the judge's noise."""

import numpy as np
import pytest

from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.lake.connections import commit
from tests.support.rated_lake import TONE, add_rows
from tests.support.scored_lake import make_lake, write_scores


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A run of the models m and n on 40 cases: n scores higher on 20, lower on 10; ann and bob chose on all of them."""
    found = make_lake(tmp_path_factory.mktemp("ranked"))
    tones = {"m": [0.5] * 40, "n": [0.75] * 20 + [0.5] * 10 + [0.25] * 10}
    rows = [
        {"case_id": f"c{place}", "model": model, "scores": {"tone": tone}, "output_id": f"{model}{place}"}
        for model, scores in tones.items()
        for place, tone in enumerate(scores)
    ]
    write_scores(found, "r", TONE, rows)
    choices = [1.0] * 18 + [0.5] * 10 + [0.0] * 12

    def body(connection, _version):
        connection.execute("update outputs set output = repeat('word ', case when model = 'n' then 2 else 1 end)")
        chosen = [
            {"run_id": "r", "output_a": f"m{place}", "output_b": f"n{place}", "criterion_id": "tone", "rater": rater}
            | {"score": score, "rated_at": "2026-11-02"}
            for rater in ("ann", "bob")
            for place, score in enumerate(choices)
        ]
        # two replies to a question, of one judge or of a panel of two
        counts = {"n": 40, "opinion_count": 80, "judge_variance": 0.01}
        noise = [{"run_id": "r", "model": "m", "criterion_id": "tone"} | counts]
        add_rows(connection, {"preferences": chosen, "judge_noise": noise})

    commit(found, "choose", body)
    return found


def test_models_are_ranked_by_people_and_by_the_scores(lake):
    by_people, by_scores = measure_run(lake, "r").as_json()["rankings"]
    m, n = by_people["strengths"]
    assert (by_people["source"], n["model"], n["choice_count"]) == ("people", "n", 80)
    assert n["value"] == pytest.approx(np.log(18 / 12) / 2) == -m["value"]
    assert n["ci_low"] < n["value"] < n["ci_high"]
    assert n["elo"] == pytest.approx(1000 + 400 * np.log10(18 / 12) / 2)
    assert by_people["length_effect"] is None  # every pair has the same lengths: nothing tells length from the model
    # half of a variance of 0.01, of each side: a difference over 1.96 x sqrt(0.005 + 0.005) = 0.196 is no tie
    assert by_scores["tie_margin"] == pytest.approx(0.196, abs=1e-3)
    assert by_scores["strengths"][1]["value"] == pytest.approx(np.log(20 / 10) / 2)


def test_a_comparison_counts_wins_beyond_the_judge_s_noise(lake):
    found = compare_runs(
        lake, "r", options=ComparisonOptions(gate=GateRule(require="win_rate > 0.6 and tie_count >= 10"))
    )
    wins = found.models[0].overall.wins
    assert (wins.win_count, wins.loss_count, wins.tie_count) == (20, 10, 10)
    assert wins.win_rate == pytest.approx(25 / 40) and not found.gate.is_failed
