"""Rubric versions in the lake: stored, shown, compared and reviewed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.files.load import shipped_text
from tests.support.samples import write_outputs, write_rubric

LAKE = "sqlite:lake/catalog.sqlite"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lake of the first `used`; later tests copy it."""
    return tmp_path_factory.mktemp("used") / "kept"


@pytest.fixture
def used(evaluate, tmp_path: Path, kept: Path) -> Path:
    """Rubric file at version 1.1.0, after runs with 1.0.0 and 1.1.0."""
    rubric = tmp_path / "rubric.yaml"
    if kept.exists():
        shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
        return rubric
    outputs = write_outputs(tmp_path / "outputs.jsonl")
    for version, weight in (("1.0.0", 1), ("1.1.0", 3)):
        write_rubric(rubric, version=version, weight=weight)
        assert evaluate(outputs, "--rubric", rubric, "--run-id", f"run-{version.replace('.', '-')}").code == 1
    shutil.copytree(tmp_path, kept)
    return rubric


@pytest.mark.nightly
def test_every_used_version_is_listed_and_the_newest_is_the_latest(gradebook, used):
    versions = gradebook("rubric", "list", "--json").json["versions"]
    assert [(row["rubric_version"], row["is_latest"], row["run_count"]) for row in versions] == [
        ("1.1.0", True, 1),
        ("1.0.0", False, 1),
    ]


def test_an_id_means_its_latest_version_and_a_version_itself(gradebook, used):
    def weight(*words: str) -> Any:
        return gradebook("rubric", "show", *words, "--json").json["criteria"][0]["weight"]

    assert (weight("short_answer"), weight("short_answer@1.0.0"), weight("short_answer", "--version", "1.0.0")) == (
        3,
        1,
        1,
    )


def test_deleting_the_pointer_leaves_the_versions(gradebook, used):
    assert gradebook("rubric", "delete", "short_answer").code == 0
    finished = gradebook("rubric", "show", "short_answer")
    assert (finished.code, "expected short_answer@VERSION with one of 1.0.0, 1.1.0" in finished.err) == (2, True)
    assert gradebook("rubric", "show", "short_answer@1.0.0").code == 0
    assert gradebook("rubric", "delete", "short_answer").code == 2


@pytest.mark.nightly
def test_a_stored_version_evaluates_as_the_file_did(gradebook, evaluate, used, tmp_path):
    finished = evaluate(tmp_path / "outputs.jsonl", "--rubric", "short_answer@1.0.0")
    assert (finished.json["rubric_version"], finished.json["scores"][0]["mean"]) == ("1.0.0", None)


def test_lint_fails_a_wrong_step_from_the_version_in_the_lake(gradebook, used):
    write_rubric(used, version="1.1.1", weight=9)
    finished = gradebook("rubric", "lint", used, "--json")
    (finding,) = [row for row in finished.json["findings"] if row["rule"] == "version-step"]
    assert (finished.code, finding["line"], "1.2.0" in finding["message"]) == (1, 3, True)


def test_runs_on_different_versions_are_compared_criterion_by_criterion_under_a_banner(gradebook, used):
    found = gradebook("compare", "run-1-0-0", "run-1-1-0", "--json").json
    assert "different rubrics: short_answer 1.0.0 and short_answer 1.1.0" in found["banner"]
    assert found["overall"] == []
    assert [(row["criterion_id"], row["n"], row["tied_count"]) for row in found["criteria"]] == [
        ("clarity", 0, 0),
        ("length", 6, 6),
        ("clarity", 0, 0),
        ("length", 6, 6),
    ]


@pytest.mark.nightly
def test_a_criterion_whose_text_differs_is_not_compared(gradebook, evaluate, used, tmp_path):
    text = used.read_text(encoding="utf-8").replace("1.1.0", "2.0.0").replace("Between 2 and 50 words.", "Short.")
    used.write_text(text, encoding="utf-8")
    evaluate(tmp_path / "outputs.jsonl", "--rubric", used, "--run-id", "third")
    found = gradebook("compare", "run-1-1-0", "third", "--json").json
    assert found["not_compared"] == ["length: another description"]
    assert {row["criterion_id"] for row in found["criteria"]} == {"clarity"}


@pytest.mark.nightly
def test_runs_of_one_version_are_compared_overall_without_a_banner(gradebook, evaluate, used, tmp_path):
    evaluate(tmp_path / "outputs.jsonl", "--rubric", used, "--run-id", "again")
    found = gradebook("compare", "run-1-1-0", "again", "--json").json
    assert (found["banner"], len(found["overall"])) == (None, 2)


def test_an_unknown_run_is_one_clear_sentence(gradebook, tmp_path):
    finished = gradebook("compare", "a", "b")
    assert (finished.code, len(finished.err.strip().splitlines())) == (2, 1)


def test_a_review_approves_an_artifact_that_meets_every_rubric(gradebook, tmp_path):
    artifact = tmp_path / "record.json"
    artifact.write_text(json.dumps({"id": "1", "title": "a", "summary": "b"}), encoding="utf-8")
    finished = gradebook("review", artifact, "--rubrics", "json_record", "--json")
    assert (finished.code, finished.json["status"]) == (0, "approved")


@pytest.mark.nightly
@pytest.mark.slow
def test_a_review_names_the_faults_and_the_targets(gradebook, tmp_path):
    artifact = tmp_path / "record.json"
    artifact.write_text(json.dumps({"id": "1"}), encoding="utf-8")
    finished = gradebook(
        "review", artifact, "--rubrics", "json_record, json_record", "--rubrics", "json_record", "--json"
    )
    evaluations = finished.json["evaluations"]
    assert (finished.code, finished.json["status"]) == (1, "needs_revision")
    assert [row["status"] for row in evaluations] == ["needs_revision"] * 3
    assert "required_keys: fail (0.00)" in evaluations[0]["feedback"].splitlines()


@pytest.mark.nightly
def test_an_artifact_with_an_output_is_a_row(gradebook, tmp_path):
    artifact = tmp_path / "row.json"
    artifact.write_text(json.dumps({"output": "Short.", "reference": "Short.", "model": "m"}), encoding="utf-8")
    finished = gradebook("review", artifact, "--rubrics", "general_answer", "--json")
    verdicts = {row["criterion_id"]: row["score"] for row in finished.json["evaluations"][0]["verdicts"]}
    assert verdicts["length"] == 1  # of the output, not of the JSON around it


@pytest.mark.nightly
def test_an_unscored_artifact_is_not_approved(gradebook, tmp_path):
    artifact = tmp_path / "answer.txt"
    artifact.write_text("An answer.", encoding="utf-8")
    finished = gradebook("review", artifact, "--rubrics", "general_answer", "--json")
    assert (finished.code, finished.json["status"]) == (1, "needs_revision")


@pytest.mark.nightly
def test_a_rubric_is_reviewed_by_the_meta_rubric(gradebook, tmp_path):
    artifact = write_rubric(tmp_path / "rubric.yaml")
    artifact.write_text(artifact.read_text(encoding="utf-8").replace("length_words", "lenght_words"), encoding="utf-8")
    finished = gradebook("review", artifact, "--rubrics", "meta_rubric", "--json")
    assert finished.json["evaluations"][0]["failed_gates"] == ["parses"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.txt", "--rubrics", "json_record"), "nowhere.txt: can't be read"),
        (("latin.txt", "--rubrics", "json_record"), "latin.txt:2: found the byte 0xe9"),
        (("ok.txt", "--rubrics", "json_recrd"), "the nearest is json_record"),
        (("ok.txt", "--rubrics", ","), "--rubrics: found ','"),
        (("ok.txt", "--budget-usd", "1", "--budget-usd", "2"), "--budget-usd: found 2 values, expected one"),
        (("row.json", "--rubrics", "json_record"), "row.json: output: found the number 3, expected text"),
    ],
)
def test_a_bad_review_is_refused_and_writes_nothing(gradebook, tmp_path, words, message):
    (tmp_path / "latin.txt").write_bytes(b"a\ncaf\xe9")
    (tmp_path / "ok.txt").write_text("ok", encoding="utf-8")
    (tmp_path / "row.json").write_text('{"output": 3}', encoding="utf-8")
    finished = gradebook("review", *words)
    assert (finished.code, message in finished.err) == (2, True), finished.err
    assert not (tmp_path / "lake").exists()


@pytest.mark.nightly
def test_a_rubric_is_scored_by_its_form_without_a_judge(gradebook, tmp_path):
    artifact = tmp_path / "rubric.yaml"
    text = shipped_text("json_record")[0].decode()
    artifact.write_text(text, encoding="utf-8")
    (whole,) = gradebook("review", artifact, "--rubrics", "rubric_form", "--json").json["evaluations"]
    artifact.write_text(text.replace(" threshold: 0.9", " threshold: 0") + "weight_sum: 7\n", encoding="utf-8")
    (faulty,) = gradebook("review", artifact, "--rubrics", "rubric_form", "--json").json["evaluations"]
    artifact.write_text("no rubric", encoding="utf-8")
    (none,) = gradebook("review", artifact, "--rubrics", "rubric_form", "--json").json["evaluations"]
    # five checks of 0.2: two of them find the threshold and the weights
    assert [(row["score"], row["status"]) for row in (whole, faulty, none)] == [
        (1, "approved"),
        (pytest.approx(0.6), "needs_revision"),
        (0, "needs_revision"),
    ]


def states(gradebook) -> dict[str, tuple[str, bool]]:
    versions = gradebook("rubric", "list", "--json").json["versions"]
    return {row["rubric_version"]: (row["state"], row["is_latest"]) for row in versions}


def test_a_registered_rubric_is_a_draft_then_active_then_retired(gradebook, tmp_path):
    rubric = tmp_path / "rubric.yaml"
    for version, state in (("1.0.0", "active"), ("1.1.0", "draft")):
        assert gradebook("rubric", "register", write_rubric(rubric, version=version), "--state", state).code == 0
    assert states(gradebook) == {"1.0.0": ("active", True), "1.1.0": ("draft", False)}
    gradebook("rubric", "register", "short_answer@1.1.0")
    assert states(gradebook) == {"1.0.0": ("active", False), "1.1.0": ("active", True)}
    gradebook("rubric", "register", "short_answer@1.1.0", "--state", "retired")
    assert states(gradebook) == {"1.0.0": ("active", True), "1.1.0": ("retired", False)}


def test_a_draft_takes_another_text_and_an_active_version_does_not(gradebook, tmp_path):
    rubric = tmp_path / "rubric.yaml"
    codes = [
        gradebook("rubric", "register", write_rubric(rubric, weight=weight), "--state", state).code
        for weight, state in ((1, "draft"), (2, "draft"), (3, "active"), (4, "active"))
    ]
    shown = gradebook("rubric", "show", "short_answer@1.0.0", "--json").json
    assert (codes, shown["criteria"][0]["weight"]) == ([0, 0, 0, 2], 3)


def rubric_text(*criteria: str, head: str = "") -> str:
    return "\n".join(["id: r", "version: 1.0.0", head, "criteria:", *criteria])


def says(word: str, more: str = "threshold: 1", description: str = "") -> str:
    """Criterion that looks for a word."""
    method = f"method: {{type: check, check: contains, settings: {{any: [{word}]}}}}"
    return f"  - {{id: {word}, description: {description or f'Says goodbye with {word}.'}, {more}, {method}}}"


CATEGORIES = "categories: [{id: one, weight: 1}, {id: two, weight: 1}]"
WORDS = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "yew")
SHARED = [says(word, f"threshold: 1, category: {'one' if word < 'g' else 'two'}") for word in WORDS]
UNFIT = {
    "too-many-criteria: found 11 weighted criteria over all categories": rubric_text(*SHARED, head=CATEGORIES),
    "description-repeats-name: found 'Tone.'": rubric_text(says("tone", description="Tone.")),
    "no-threshold: found no threshold": rubric_text(
        says("oak"), says("elm", "weight: 1"), head="pass_threshold: 0.5\nrequire_thresholds: true"
    ),
}


@pytest.mark.parametrize("fault", UNFIT)
def test_what_may_not_be_active_may_be_a_draft(gradebook, tmp_path, fault):
    (tmp_path / "r.yaml").write_text(UNFIT[fault], encoding="utf-8")
    refused = gradebook("rubric", "register", "./r.yaml")
    assert (refused.code, fault in refused.err) == (2, True), refused.err
    assert gradebook("rubric", "register", "./r.yaml", "--state", "draft").code == 0


def test_lint_does_not_ask_to_allow_what_is_allowed(gradebook, tmp_path, monkeypatch):
    text = "id: r\nversion: 1.0.0\ncriteria:\n  - {id: tone, description: It is kind., threshold: 1,\n"
    (tmp_path / "r.yaml").write_text(f"{text}     method: {{type: function, function: 'house.rules:kind'}}}}\n")
    assert "own-function" in gradebook("rubric", "lint", "./r.yaml").out
    monkeypatch.setenv("GRADEBOOK_ALLOW_FUNCTIONS", "house")
    assert "own-function" not in gradebook("rubric", "lint", "./r.yaml").out


@pytest.mark.nightly
def test_a_night_refuses_a_draft_that_a_person_may_try(gradebook, evaluate, tmp_path):
    rubric = write_rubric(tmp_path / "rubric.yaml")
    outputs = write_outputs(tmp_path / "outputs.jsonl")
    gradebook("rubric", "register", rubric, "--state", "draft")
    suites = tmp_path / "suites.yaml"
    suites.write_text(f"suites: [{{id: s, outputs: {outputs}, rubric: {rubric}}}]", encoding="utf-8")
    refused = gradebook("suite", "nightly", suites, "--json")
    (suite,) = refused.json["suites"]
    assert (refused.code, suite["run_id"]) == (2, None)
    assert "found short_answer 1.0.0, which is a draft, expected an active version" in suite["fault"]
    assert evaluate(outputs, "--rubric", rubric).code in (0, 1)
    assert states(gradebook) == {"1.0.0": ("draft", False)}  # a run freezes a draft, and does not activate it
    changed = gradebook("rubric", "register", write_rubric(rubric, weight=9), "--state", "draft")
    assert (changed.code, "found another text" in changed.err) == (2, True)


def test_rubrics_are_listed_by_their_target_type(gradebook, tmp_path):
    rubric = write_rubric(tmp_path / "rubric.yaml")
    rubric.write_text(rubric.read_text(encoding="utf-8") + "target_type: rubric\n", encoding="utf-8")
    gradebook("rubric", "register", rubric)
    found = gradebook("rubric", "list", "--target-type", "rubric", "--json").json
    assert [row["name"] for row in found["shipped"]] == ["meta_rubric", "rubric_form"]
    assert [row["rubric_id"] for row in found["versions"]] == ["short_answer"]
    assert {row["target_type"] for row in gradebook("rubric", "list", "--json").json["shipped"]} >= {"answer", "record"}
