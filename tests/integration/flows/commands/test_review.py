"""`gradebook review`: one artifact judged with rubrics, completely or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.stages import review as stages_review
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.samples import judged_criteria

GREETS: dict[str, Any] = {
    "id": "greets",
    "description": "It greets.",
    "method": {"type": "check", "check": "contains", "settings": {"any": ["Hello"]}},
}
SAFE: dict[str, Any] = {"id": "safe", "description": "Is it safe?", "gate": True, "method": {"type": "judge"}}


def write_row(path: Path, **columns: Any) -> Path:
    path.write_text(json.dumps({"output": "Hello."} | columns), encoding="utf-8")
    return path


def write_rubric(path: Path, rubric_id: str, criterion_id: str = "length", max_words: int = 9) -> Path:
    path.write_text(
        f"id: {rubric_id}\nversion: 1.0.0\npass_threshold: 0.5\ncriteria:\n"
        f"  - {{id: {criterion_id}, description: Short., threshold: 1, "
        f"method: {{type: check, check: length_words, settings: {{max: {max_words}}}}}}}\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.nightly
def test_a_review_interrupted_after_its_commit_is_not_published_twice(gradebook, tmp_path, monkeypatch):
    artifact, rubric = write_row(tmp_path / "a.json"), write_rubric(tmp_path / "r.yaml", "short")
    with monkeypatch.context() as cut:
        cut.setattr(stages_review, "concluded_run", lambda _run: (_ for _ in ()).throw(OSError("power")))
        assert gradebook("review", artifact, "--rubrics", rubric).code == 3
    assert gradebook("review", artifact, "--rubrics", rubric).code == 0
    counts = gradebook("sql", "select count(*) as n from output_scores", "--format", "json").json
    assert counts == [{"n": 1}]


@pytest.mark.nightly
def test_an_unscored_per_case_gate_is_not_met(gradebook, tmp_path):
    artifact = write_row(tmp_path / "a.json", criteria=[GREETS, SAFE])
    finished = gradebook("review", artifact, "--rubrics", "none", "--json")
    (evaluation,) = finished.json["evaluations"]
    assert (finished.code, finished.json["status"]) == (1, "needs_revision")
    assert evaluation["unmet"] == ["artifact: gates of per-case criteria are not scored for 1 of 1 output"]
    assert "no --judge: 1 per-case criterion unscored" in evaluation["notes"]


@pytest.mark.nightly
def test_a_per_case_gate_is_a_requirement(gradebook, tmp_path):
    artifact = write_row(tmp_path / "a.json", output="Bye.", criteria=[GREETS | {"gate": True}])
    gradebook("review", artifact, "--rubrics", "none")
    (run,) = gradebook("runs", "--json").json["runs"]
    assert gradebook("report", run["run_id"]).code == 0
    page = (tmp_path / f"{run['run_id']}.html").read_text(encoding="utf-8")
    assert "may not ship" in page
    assert "1 of 1 output fails the gate" in page


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (("short", "length", 3), "found two texts of short 1.0.0, expected one"),
        (("other", "greets", 9), "which the rubric has already"),
    ],
)
def test_a_fault_of_a_later_rubric_ends_the_review_before_the_first_run(gradebook, tmp_path, second, message):
    artifact = write_row(tmp_path / "a.json", criteria=[GREETS])
    first, later = write_rubric(tmp_path / "r.yaml", "short"), write_rubric(tmp_path / "s.yaml", *second)
    finished = gradebook("review", artifact, "--rubrics", f"{first},{later}")
    assert (finished.code, message in finished.err) == (2, True), finished.err
    assert not (tmp_path / "lake").exists()


def test_a_bad_row_is_reported_under_the_typed_name(gradebook, tmp_path):
    artifact = write_row(tmp_path / "a.json", criteria=[{"id": "x"}])
    finished = gradebook("review", artifact, "--rubrics", "none")
    assert (finished.code, finished.err.startswith(f"gradebook: {artifact}: criteria[0]: found no")) == (2, True)


@pytest.mark.parametrize("out", [".", "a" * 300])
def test_an_unwritable_schema_file_is_reported(gradebook, out):
    finished = gradebook("rubric", "schema", "--out", out)
    assert (finished.code, "--out: " in finished.err) == (2, True), finished.err


def test_a_name_that_is_too_long_for_a_file_is_reported(gradebook):
    finished = gradebook("rubric", "lint", "a" * 5_000)
    assert (finished.code, "unexpected" in finished.err) == (2, False)


def test_an_import_into_a_folder_with_one_of_its_files_writes_none(gradebook, tmp_path):
    example = Path(__file__).parents[3] / "unit" / "rubrics" / "importers" / "examples" / "scale.json"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ratings.jsonl").write_text("mine", encoding="utf-8")
    assert gradebook("rubric", "import", example, "--format", "scale", "-o", "out").code == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["ratings.jsonl"]


def test_an_unknown_version_is_reported(gradebook):
    finished = gradebook("rubric", "show", "support_reply", "--version", "9.9.9")
    assert (finished.code, "support_reply@9.9.9: found no version of it in" in finished.err) == (2, True)


@pytest.mark.nightly
def test_a_review_draws_its_report_on_demand(gradebook, tmp_path):
    artifact, rubric = write_row(tmp_path / "a.json"), write_rubric(tmp_path / "r.yaml", "short")
    (evaluation,) = gradebook("review", artifact, "--rubrics", rubric, "--json").json["evaluations"]
    assert not list(tmp_path.rglob("report.html"))
    assert gradebook("report", evaluation["run_id"], "--out", tmp_path / "report.html").code == 0
    assert "length" in (tmp_path / "report.html").read_text(encoding="utf-8")


def artifacts(gradebook) -> list[Any]:
    columns = "artifact, target_type, state, len(run_ids) as runs, provenance ->> '$.metadata.prompt' as prompt"
    return list(gradebook("sql", f"select {columns} from artifacts order by created_at", "--format", "json").json)


def test_an_artifact_is_pending_then_approved_or_sent_back_with_its_provenance(gradebook, tmp_path):
    rubric = write_rubric(tmp_path / "r.yaml", "short", max_words=2)
    good = write_row(tmp_path / "good.json", metadata={"prompt": "greeting-3"})
    assert gradebook("review", good, "--pending", "--target-type", "greeting").code == 0
    row = {"artifact": str(good), "target_type": "greeting", "state": "pending", "runs": 0, "prompt": "greeting-3"}
    assert artifacts(gradebook) == [row]
    gradebook("review", good, "--rubrics", rubric)
    bad = write_row(tmp_path / "bad.json", output="Far too many words.")
    gradebook("review", bad, "--rubrics", rubric)
    assert artifacts(gradebook) == [
        row | {"state": "approved", "runs": 1},
        {"artifact": str(bad), "target_type": None, "state": "needs_revision", "runs": 1, "prompt": None},
    ]


@pytest.mark.nightly
def test_a_review_that_is_not_finished_leaves_its_artifact_pending_until_it_is_repeated(gradebook, tmp_path):
    artifact, rubric, judge = write_row(tmp_path / "a.json"), tmp_path / "r.yaml", tmp_path / "judge.yaml"
    rubric.write_text(f"id: r\nversion: 1.0.0\ncriteria:\n{judged_criteria('warm')}", encoding="utf-8")
    rubrics = f"{rubric},{write_rubric(tmp_path / 's.yaml', 'short')}"
    command = ("review", artifact, "--rubrics", rubrics, "--judge", judge)
    with LoopbackJudge() as server:
        judge.write_text(f"model: gpt-4o-mini\nbase_url: {server.base_url}\n", encoding="utf-8")
        server.faults = ["401"] * 9
        assert gradebook(*command).code == 3
        assert [(row["state"], row["runs"]) for row in artifacts(gradebook)] == [("pending", 0)]
        assert f"--rubrics {rubrics} " in gradebook("status").out  # with one of them it could be approved
        server.faults = []
        gradebook(*command)
    ((state, run_count),) = [(row["state"], row["runs"]) for row in artifacts(gradebook)]
    assert (state in ("approved", "needs_revision"), run_count) == (True, 2)


@pytest.mark.nightly
def test_the_map_names_the_rubrics_of_a_type(gradebook, tmp_path):
    artifact = write_row(tmp_path / "a.json")
    (tmp_path / "maps").mkdir()
    write_rubric(tmp_path / "maps" / "r.yaml", "short")
    review_map = tmp_path / "maps" / "review.yaml"
    review_map.write_text("rubrics:\n  greeting: [r.yaml, json_record]\n", encoding="utf-8")
    finished = gradebook("review", artifact, "--target-type", "greeting", "--map", review_map, "--json")
    assert [each["rubric"] for each in finished.json["evaluations"]] == ["short 1.0.0", "json_record 3.0.0"]
    refused = gradebook("review", artifact, "--target-type", "greting", "--map", review_map)
    assert (refused.code, "the nearest is greeting" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "can't be read"),
        ("rubrics: {greeting: []}", "review.yaml:1:"),
        ("rubric: {}", "unknown key 'rubric'"),
    ],
)
def test_a_map_that_names_no_rubrics_is_refused(gradebook, tmp_path, text, message):
    artifact = write_row(tmp_path / "a.json")
    if text is not None:
        (tmp_path / "review.yaml").write_text(text, encoding="utf-8")
    finished = gradebook("review", artifact, "--target-type", "greeting")
    assert (finished.code, message in finished.err) == (2, True), finished.err


ASKED = {"role": "user", "content": "Say hello."}
CHAT = {"messages": [ASKED, {"role": "assistant", "content": "Hello."}]}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("content", "output", "prompt"),
    [
        (CHAT, "Hello.", '[{"content":"Say hello.","role":"user"}]'),
        *matrix(
            [
                ({"messages": {"greeting": "Hello."}}, '{"messages": {"greeting": "Hello."}}', None),
                (CHAT | {"output": "Bye."}, "Bye.", None),
            ]
        ),
    ],
    ids=["conversation", "messages of an application", "an output beside them"],
)
def test_an_object_with_chat_messages_is_a_conversation(gradebook, tmp_path, content, output, prompt):
    (tmp_path / "chat.json").write_text(json.dumps(content), encoding="utf-8")
    assert gradebook("review", "chat.json", "--rubrics", write_rubric(tmp_path / "r.yaml", "short")).code == 0
    (row,) = gradebook("sql", "select case_id, prompt, output from outputs", "--format", "json").json
    assert row == {"case_id": "chat.json", "prompt": prompt, "output": output}


def test_a_conversation_without_an_answer_is_refused(gradebook, tmp_path):
    (tmp_path / "chat.json").write_text(json.dumps({"messages": [ASKED]}), encoding="utf-8")
    finished = gradebook("review", "chat.json", "--rubrics", write_rubric(tmp_path / "r.yaml", "short"))
    expected = 'expected "assistant", the answer, or an `output` beside the messages'
    found = 'found the text "user" as the role of the last message'
    assert (finished.code, finished.err) == (2, f"gradebook: chat.json: messages: {found}, {expected}\n")
