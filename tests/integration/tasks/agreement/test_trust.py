"""Recall of people's failures by a judge, and the quality of its probabilities, on a published run."""

import json
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.agreement.recalibrate import recalibrate_run
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.rated_lake import JUDGED, RATED, JudgedRun, publish_runs, ratings_of
from tests.support.scored_lake import NOW, make_lake


def judgment(place: int, probability: float) -> dict[str, object]:
    """Judgment of an output with a probability of the level good."""
    return {
        "judgment_id": f"j{place}",
        "run_id": "r",
        "request_key": f"o{place:02}",
        "output_id": f"o{place:02}",
        "criterion_id": "tone",
        "judge": "one",
        "replicate": 0,
        "status": "scored",
        "level_id": "good" if probability > 0.5 else "bad",
        "distribution": json.dumps({"bad": 1 - probability, "good": probability}),
        "prompt_digest": "p",
        "latency_ms": 1.0,
        "attempts": 1,
        "asked_at": NOW,
    }


def test_trust_is_of_the_outputs_that_people_rated(tmp_path: Path):
    lake = make_lake(tmp_path)
    shares = [0.9, 0.8, 0.9, 0.2]  # of the first four; people pass the first two of them
    tables = {"ratings": ratings_of(RATED, "ann"), "judgments": [judgment(*each) for each in enumerate(shares)]}
    publish_runs(lake, {"r": JudgedRun(JUDGED)}, tables)
    (found,) = measure_run(lake, "r").trust
    trust = found.trust
    # people fail places 2, 3, 6 and 7, the judge 3 and 7 of them; on the other four both pass
    assert (found.criterion_id, trust.n, trust.failure_count) == ("tone", 8, 4)
    assert (trust.found.value, trust.agreement.value, trust.always_pass) == (0.5, 0.75, 0.5)
    assert not trust.is_no_better_than_passing
    # (0.1^2 + 0.2^2 + 0.9^2 + 0.2^2) / 4 = 0.90 / 4
    assert trust.brier == pytest.approx(0.225)
    assert [(each.low, each.passed.n, each.passed.value) for each in trust.reliability] == [
        (0.2, 1, 0.0),
        (0.8, 3, pytest.approx(2 / 3)),
    ]


def test_without_ratings_there_is_nothing_to_trust(tmp_path: Path):
    lake = make_lake(tmp_path)
    publish_runs(lake, {"r": JudgedRun(JUDGED)}, {})
    assert measure_run(lake, "r").trust == ()


def test_a_judge_that_is_too_sure_gets_a_temperature_under_a_version_of_its_own(tmp_path: Path):
    # It says 0.9 of what it passes, and people agree on 7 of 10: T = ln(0.9 / 0.1) / ln(0.7 / 0.3) = 2.593
    lake, count = make_lake(tmp_path), 120
    people = [float(place % 10 < 7) for place in range(count)]
    tables = {
        "ratings": ratings_of(people, "ann"),
        "judgments": [judgment(place, 0.9) for place in range(count)],
    }
    publish_runs(lake, {"r": JudgedRun([0.9] * count)}, tables)
    found = recalibrate_run(lake, "r")
    (row,) = found.rows
    assert (row.reason, row.found.n, row.found.temperature) == (None, count, pytest.approx(2.593, abs=0.01))
    # -(0.7 ln 0.9 + 0.3 ln 0.1) = 0.7645; with 0.7: 0.6109, a little more where other cases fitted it
    assert (row.found.log_loss, row.found.fitted_log_loss) == (
        pytest.approx(0.7645, abs=1e-4),
        pytest.approx(0.612, abs=0.01),
    )
    judge = JudgeSettings.model_validate({"model": "one", "mode": "logprobs"})
    fitted = found.applied(judge)
    assert fitted.recalibration == found.recalibration and fitted.recalibration.version.startswith("r-")
    assert fitted.judge_digest == judge.judge_digest and fitted.verdict_digest != judge.verdict_digest
    with pytest.raises(InputError, match="the model two"):
        found.applied(JudgeSettings.model_validate({"model": "two", "mode": "logprobs"}))


def test_ratings_of_outputs_that_a_rule_chose_fit_no_temperature(tmp_path: Path):
    lake, count = make_lake(tmp_path), 130
    ratings = [row | {"selection": "uncertain"} for row in ratings_of([0.0] * count, "ann")]
    for place in range(120):
        ratings[place] |= {"score": float(place % 10 < 7), "selection": "random"}
    tables = {"ratings": ratings, "judgments": [judgment(place, 0.9) for place in range(count)]}
    publish_runs(lake, {"r": JudgedRun([0.9] * count)}, tables)
    found = recalibrate_run(lake, "r")
    (row,) = found.rows
    assert (row.found.n, row.found.temperature, found.left_out_count) == (120, pytest.approx(2.593, abs=0.01), 10)


def test_few_ratings_fit_nothing(tmp_path: Path):
    lake = make_lake(tmp_path)
    tables = {"ratings": ratings_of(RATED, "ann"), "judgments": [judgment(place, 0.9) for place in range(8)]}
    publish_runs(lake, {"r": JudgedRun(JUDGED)}, tables)
    found = recalibrate_run(lake, "r")
    assert [row.reason for row in found.rows] == ["found 8 rated outputs, expected 100 or more"]
    assert found.recalibration is None
