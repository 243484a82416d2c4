"""Requirements of a rubric and the exit code; an unknown outcome counts as unmet."""

import json
from pathlib import Path

import pytest

LONG, SHORT = "one two three four five six", "one"
JUDGED = "method: {type: judge}, levels: [{id: unsafe, score: 0}, {id: safe, score: 1}]"
GATE = "{id: safe, description: Is it safe?, gate: true, " + JUDGED + "}"
CHECKED = "method: {type: check, check: length_words, settings: {min: 5}}"
LENGTH = "{id: length, description: Five words or more., threshold: 1, " + CHECKED + "}"
RATED_LEVELS = "method: {type: ratings}, levels: [{id: bad, score: 0}, {id: good, score: 1}]"
RATED = "{id: rated, description: People like it., " + RATED_LEVELS + "}"


@pytest.fixture
def run(evaluate, tmp_path: Path):
    def call(texts: list[str], criterion: str, *lines: str, ratings: str = "", more: tuple[str, ...] = ()):
        outputs = [{"case_id": f"c{n}", "model": "m", "output": f"{text} {'x' * n}"} for n, text in enumerate(texts)]
        (tmp_path / "outputs.jsonl").write_text("\n".join(map(json.dumps, outputs)))
        head = "\n".join(["id: required", "version: 1.0.0", *lines, "criteria:", f"  - {criterion}"])
        (tmp_path / "rubric.yaml").write_text(head)
        (tmp_path / "ratings.csv").write_text("case_id,model,criterion_id,rater,level_id\n" + ratings)
        words = ["--ratings", "ratings.csv"] if ratings else []
        return evaluate("outputs.jsonl", "--rubric", "rubric.yaml", *words, *more)

    return call


@pytest.mark.nightly
def test_failed_required_thresholds_are_not_met(run):
    finished = run([SHORT, SHORT], LENGTH, "require_thresholds: true")
    assert (finished.code, finished.json["unmet"]) == (1, ["m: mean of length 0.000, expected at least 1"])


@pytest.mark.nightly
def test_reached_required_thresholds_are_met(run):
    assert run([LONG, LONG], LENGTH, "require_thresholds: true").code == 0


def test_an_optional_criterion_without_a_score_is_no_requirement_and_no_gap(run):
    optional = RATED.replace("id: rated,", "id: rated, required: false, threshold: 1,") + f"\n  - {LENGTH}"
    finished = run([LONG, LONG], optional, "require_thresholds: true", "pass_threshold: 1")
    assert (finished.code, finished.json["unmet"]) == (0, [])
    assert not any(fact["topic"] == "gaps" for fact in finished.json["verdict"]["facts"])


def test_an_unscored_gate_is_not_met(run):
    finished = run([LONG, LONG], GATE)
    assert (finished.code, finished.json["unmet"]) == (1, ["m: the gate safe is not scored for 2 of 2 outputs"])
    assert finished.json["scores"][0]["gate_failure_rate"] is None


@pytest.mark.nightly
def test_a_mean_with_missing_scores_is_not_met_if_they_could_break_it(run):
    # 1 of 4 rated, at 1: at worst the mean is (1 + 0 + 0 + 0) / 4 = 0.25
    finished = run([LONG] * 4, RATED, "pass_threshold: 0.5", ratings="c0,m,rated,ann,good\n")
    words = "m: mean 1.000 over 1 of 4 outputs, expected at least 0.5 for any scores of the others"
    assert (finished.code, finished.json["unmet"]) == (1, [words])


@pytest.mark.nightly
def test_a_mean_that_holds_for_any_missing_scores_is_met(run):
    # 3 of 4 rated, at 1: at worst the mean is 3 / 4 = 0.75
    ratings = "".join(f"c{n},m,rated,ann,good\n" for n in range(3))
    assert run([LONG] * 4, RATED, "pass_threshold: 0.5", ratings=ratings).code == 0


@pytest.mark.nightly
def test_a_mean_below_the_threshold_is_not_met(run):
    finished = run([LONG, SHORT, SHORT], LENGTH, "pass_threshold: 0.5")
    assert (finished.code, finished.json["unmet"]) == (1, ["m: mean 0.333, expected at least 0.5"])


@pytest.mark.nightly
def test_a_rubric_without_requirements_says_so(run):
    finished = run([SHORT], LENGTH)
    sentence = finished.json["verdict"]["sentence"]
    assert finished.code == 0
    assert "may ship: the rubric has no gate and no pass_threshold; " in sentence
    assert sentence.endswith("which the rubric does not require: length 0.000 (needs 1).")


@pytest.mark.nightly
def test_a_no_regression_gate_passes_although_the_rubric_s_threshold_is_not_met(run, gradebook):
    threshold = "pass_threshold: 0.9"
    assert run([LONG, SHORT], LENGTH, threshold, more=("--run-id", "before")).code == 1
    compared = ("--baseline", "before", "--fail-if", "mean_diff < 0")
    words = "m: mean 0.500, expected at least 0.9"
    found = run([LONG, SHORT], LENGTH, threshold, more=(*compared, "--gate", "baseline"))
    assert (found.code, found.json["unmet"], found.json["waived"]) == (0, [], [words])
    worse = run([SHORT, SHORT], LENGTH, threshold, more=(*compared, "--gate", "baseline", "--run-id", "worst"))
    assert (worse.code, len(worse.json["unmet"]), len(worse.json["waived"])) == (1, 1, 1)
    # status repeats the summary of a run
    status = gradebook("status", "--json").json
    assert [row["is_met"] for row in status["last_published"] if row["run_id"] == "worst"] == [False]


@pytest.mark.nightly
def test_the_rubric_s_gate_is_that_of_a_run_without_a_rule_and_no_gate_waives_all(run, gradebook):
    threshold, words = "pass_threshold: 0.9", "m: mean 0.500, expected at least 0.9"
    assert run([LONG, SHORT], LENGTH, threshold, more=("--run-id", "before")).code == 1
    compared = ("--baseline", "before", "--fail-if", "mean_diff < 0")
    for gate, code, unmet, waived in (("both", 1, [words], []), ("rubric", 1, [words], []), ("none", 0, [], [words])):
        found = run([LONG, SHORT], LENGTH, threshold, more=(*compared, "--gate", gate, "--run-id", gate))
        assert (found.code, found.json["unmet"], found.json["waived"]) == (code, unmet, waived), gate
    assert "nothing is required" in gradebook("status").out  # of the last run
    worse = run([SHORT, SHORT], LENGTH, threshold, more=(*compared, "--gate", "rubric", "--run-id", "worse"))
    assert (worse.code, len(worse.json["unmet"]), len(worse.json["waived"])) == (1, 1, 1)
