"""`gradebook evaluate` with several criteria a request."""

from pathlib import Path

import pytest

from tests.support.samples import judged_criteria, query, write_outputs

CASES = 3
OUTPUTS = 2 * CASES  # two models
RUBRIC = """
id: packed
version: 1.0.0
name: Packed
description: Three judged criteria.
criteria:
"""


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    write_outputs(tmp_path / "outputs.jsonl", count=CASES)
    (tmp_path / "rubric.yaml").write_text(RUBRIC + judged_criteria("warm", "brief", "apt"), encoding="utf-8")
    (tmp_path / "judge.yaml").write_text("model: m\npacking: 2\n", encoding="utf-8")
    return ("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "judge.yaml")


@pytest.mark.slow
def test_batched_criteria_are_asked_once_and_each_is_paid_for_once(evaluate, gradebook, judge, words):
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    assert judge.request_count == 2 * OUTPUTS  # warm and brief in one request, apt in another
    (kept,) = query(gradebook, "select count(*) n, count(distinct request_key) keys from judgments")
    assert (kept["n"], kept["keys"]) == (3 * OUTPUTS, 3 * OUTPUTS)
    assert evaluate(*words).code == 0
    assert judge.request_count == 2 * OUTPUTS


@pytest.mark.nightly
@pytest.mark.slow
def test_batched_criteria_are_asked_together_if_one_of_them_is_missing(evaluate, gradebook, judge, words):
    judge.faults = ["one liar"] * 2  # the first judgment of one request is useless, twice
    Path("judge.yaml").write_text("model: m\npacking: 2\nmax_in_flight: 1\n", encoding="utf-8")
    evaluate(*words)
    assert judge.request_count == 2 * OUTPUTS + 1
    evaluate(*words)
    assert judge.request_count == 2 * OUTPUTS + 2
    (scored,) = query(gradebook, "select count(*) n from verdicts where status = 'unscored'")
    assert scored["n"] == 1  # in the first run
