"""`gradebook evaluate --sample`: the plan of a sample, and refused sizes."""

import json

import duckdb
import pytest

from gradebook.tasks.agreement.published_run import UNWEIGHTED, unweighted_words
from tests.support.samples import write_outputs

FIVE = {"case_count": 5, "dataset_case_count": 20, "column": None, "strata": []}


@pytest.fixture
def words(tmp_path):
    """Words after `gradebook`: outputs of 20 cases by two models, and a shipped rubric."""
    return ["evaluate", write_outputs(tmp_path / "outputs.jsonl", count=20), "--rubric", "json_record", "--dry-run"]


def test_a_dry_run_plans_the_sample_and_says_so(gradebook, words):
    planned = gradebook(*words, "--sample", "5", "--json").json
    assert (planned["output_count"], planned["sample"]) == (10, FIVE)
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


def test_a_sample_by_stratum_is_weighted_in_every_figure_and_says_so(evaluate, gradebook, tmp_path):
    # 30 easy cases that pass and 10 hard ones that fail: the plain mean of 6 + 4 cases is not the dataset's 0.75
    rows = [
        {"case_id": f"c{place}", "model": "m", "output": "a b c d e" if place < 30 else "no", "topic": topic}
        for place, topic in enumerate(["easy"] * 30 + ["hard"] * 9 + ["rare"])
    ]
    outputs = tmp_path / "o.jsonl"
    outputs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rubric = tmp_path / "r.yaml"
    rubric.write_text(
        "id: r\nversion: 1.0.0\nname: r\ndescription: d\nowner: o\npass_threshold: 0.5\ncriteria:\n"
        "  - {id: long, description: L, weight: 1, method: {type: check, check: length_words, settings: {min: 5}}}\n"
    )
    words = [outputs, "--rubric", rubric]
    drawn = evaluate(*words, "--sample", "10", "--stratify", "topic", "--run-id", "drawn")
    assert drawn.code == 0, drawn.err
    evaluate(*words, "--run-id", "full")
    found = gradebook("sql", "select run_id, mean, pass_rate, n from run_scores", "--format", "json").json
    assert {row["run_id"]: (row["n"], row["mean"], row["pass_rate"]) for row in found} == {
        "drawn": (10, pytest.approx(0.75), pytest.approx(0.75)),
        "full": (40, 0.75, 0.75),
    }
    (notes,) = gradebook("sql", "select notes from runs where run_id = 'drawn'", "--format", "json").json
    assert any("by topic (3 strata)" in note and "of their own: rare (1 case)" in note for note in notes["notes"])
    compared = gradebook("compare", "full", "drawn", "--json").json
    assert compared["overall"][0]["mean_b"] == pytest.approx(0.75)
    assert compared["overall"][0]["p_wilcoxon"] is None
    assert any("drawn by stratum" in line for line in compared["not_compared"])
    assert gradebook("compare", "full", "drawn", "--unpaired").code == 2
    assert gradebook("lake", "rebuild", "drawn", "--check").code == 0
    assert evaluate(*words, "--sample", "10", "--run-id", "drawn").code == 2  # without strata it is another run


def test_a_case_of_several_outputs_has_its_stratum_s_weight_once_in_a_run_and_a_comparison(
    evaluate, gradebook, tmp_path
):
    # 30 easy cases that pass, and 10 hard ones of which one answer in three does: 0.75 + 0.25 / 3
    rows = [
        {"case_id": f"c{place}", "model": "m", "sample_index": sample, "topic": "easy" if place < 30 else "hard"}
        | {"output": f"a b c d {place}" if place < 30 or not sample else f"no {sample} {place}"}
        for place in range(40)
        for sample in range(1 if place < 30 else 3)
    ]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "r.yaml").write_text(
        "id: r\nversion: 1.0.0\ncriteria:\n"
        "  - {id: long, description: L, method: {type: check, check: length_words, settings: {min: 5}}}\n"
    )
    words = [tmp_path / "o.jsonl", "--rubric", tmp_path / "r.yaml"]
    for name, sample in (("full", []), ("drawn", ["--sample", "12", "--stratify", "topic"])):
        assert evaluate(*words, *sample, "--run-id", name).code == 0
    found = gradebook("sql", "select mean from run_scores where run_id = 'drawn'", "--format", "json").json
    (overall,) = gradebook("compare", "full", "drawn", "--json").json["overall"]
    assert [found[0]["mean"], overall["mean_a"], overall["mean_b"]] == [pytest.approx(0.75 + 0.25 / 3)] * 3


def test_agreement_and_noise_say_that_strata_are_not_weighed():
    with duckdb.connect() as lake:
        lake.execute("create table output_scores (run_id text, stratum text)")
        lake.execute("insert into output_scores values ('drawn', 'easy'), ('full', null)")
        assert (unweighted_words(lake, "drawn"), unweighted_words(lake, "full")) == (UNWEIGHTED, None)
