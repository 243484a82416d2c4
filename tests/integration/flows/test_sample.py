"""`gradebook evaluate --sample`: the plan of a sample, and refused sizes."""

import pytest

from tests.support.samples import write_outputs


@pytest.fixture
def words(tmp_path):
    """Words after `gradebook`: outputs of 20 cases by two models, and a shipped rubric."""
    return ["evaluate", write_outputs(tmp_path / "outputs.jsonl", count=20), "--rubric", "json_record", "--dry-run"]


def test_a_dry_run_plans_the_sample_and_says_so(gradebook, words):
    planned = gradebook(*words, "--sample", "5", "--json").json
    assert (planned["output_count"], planned["sample"]) == (10, {"case_count": 5, "dataset_case_count": 20})
    assert "note: a random sample of 5 of 20 cases, seed 0" in gradebook(*words, "--sample", "5").err


def test_a_dry_run_of_all_cases_has_no_note(gradebook, words):
    assert gradebook(*words, "--json").json["sample"] is None
    assert "sample" not in gradebook(*words, "--sample", "20").err


@pytest.mark.parametrize(
    ("size", "message"), [("0", "found 0, expected a number of cases, 1 or more"), ("-3", "found -3")]
)
def test_a_sample_of_no_case_is_refused(gradebook, words, tmp_path, size, message):
    finished = gradebook(*words, "--sample", size)
    assert (finished.code, f"--sample: {message}" in finished.err) == (2, True), finished.err
    assert not (tmp_path / "lake").exists()
