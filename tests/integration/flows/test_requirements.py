"""What a rubric requires of a run, through the exit code: what is not known is not met."""

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
    def call(texts: list[str], criterion: str, *lines: str, ratings: str = ""):
        outputs = [{"case_id": f"c{n}", "model": "m", "output": f"{text} {'x' * n}"} for n, text in enumerate(texts)]
        (tmp_path / "outputs.jsonl").write_text("\n".join(map(json.dumps, outputs)))
        head = "\n".join(["id: required", "version: 1.0.0", *lines, "criteria:", f"  - {criterion}"])
        (tmp_path / "rubric.yaml").write_text(head)
        (tmp_path / "ratings.csv").write_text("case_id,model,criterion_id,rater,level_id\n" + ratings)
        words = ["--ratings", "ratings.csv"] if ratings else []
        return evaluate("outputs.jsonl", "--rubric", "rubric.yaml", *words)

    return call


def test_required_thresholds_that_do_not_hold_are_not_met(run):
    finished = run([SHORT, SHORT], LENGTH, "require_thresholds: true")
    assert (finished.code, finished.json["unmet"]) == (1, ["m: mean of length 0.000, expected at least 1"])


def test_required_thresholds_that_hold_are_met(run):
    assert run([LONG, LONG], LENGTH, "require_thresholds: true").code == 0


def test_a_gate_that_nobody_judged_is_not_met(run):
    finished = run([LONG, LONG], GATE)
    assert (finished.code, finished.json["unmet"]) == (1, ["m: the gate safe is not scored for 2 of 2 outputs"])
    assert finished.json["scores"][0]["gate_failure_rate"] is None


def test_a_mean_of_few_outputs_is_not_met_where_the_others_could_break_it(run):
    # 1 of 4 rated, at 1: at worst the mean is (1 + 0 + 0 + 0) / 4 = 0.25
    finished = run([LONG] * 4, RATED, "pass_threshold: 0.5", ratings="c0,m,rated,ann,good\n")
    words = "m: mean 1.000 over 1 of 4 outputs, expected at least 0.5 whatever the others are"
    assert (finished.code, finished.json["unmet"]) == (1, [words])


def test_a_mean_that_holds_whatever_the_gaps_are_is_met(run):
    # 3 of 4 rated, at 1: at worst the mean is 3 / 4 = 0.75
    ratings = "".join(f"c{n},m,rated,ann,good\n" for n in range(3))
    assert run([LONG] * 4, RATED, "pass_threshold: 0.5", ratings=ratings).code == 0


def test_a_mean_below_the_threshold_is_not_met(run):
    finished = run([LONG, SHORT, SHORT], LENGTH, "pass_threshold: 0.5")
    assert (finished.code, finished.json["unmet"]) == (1, ["m: mean 0.333, expected at least 0.5"])


def test_a_rubric_that_requires_nothing_says_so(run):
    finished = run([SHORT], LENGTH)
    assert (finished.code, finished.json["verdict"][:26]) == (0, "The rubric has no gate and")
