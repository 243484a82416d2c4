"""Evaluation with a rubric whose JSON Schemas are in files next to it."""

import json
from pathlib import Path

import pytest

RUBRIC = """
id: ticket_update
version: 1.0.0
description: Whether a ticket update can be stored.
pass_threshold: 0.5
schemas: {address.json: schemas/address.json}
criteria:
  - id: shape
    description: The update names where it was sent.
    method:
      type: schema
      schema: {required: [sent_to], properties: {sent_to: {$ref: "address.json#/$defs/town"}}}
"""
OUTPUTS = {"named": '{"sent_to": "Ulm"}', "nameless": '{"sent_to": ""}', "missing": "{}"}


def write_address(folder: Path, **town: object) -> None:
    (folder / "schemas").mkdir(exist_ok=True)
    schema = {"$defs": {"town": {"type": "string", **town}}}
    (folder / "schemas" / "address.json").write_text(json.dumps(schema), encoding="utf-8")


@pytest.fixture
def rubric(tmp_path: Path) -> Path:
    """A rubric, its schema file and, in another folder, the outputs."""
    write_address(tmp_path, minLength=1)
    rows = [{"case_id": name, "model": "m", "output": output} for name, output in OUTPUTS.items()]
    (tmp_path / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    return tmp_path / "rubric.yaml"


def verdicts(gradebook) -> dict[str, tuple[str, str | None]]:
    query = "select case_id, level_id, evidence from verdicts join outputs using (output_id)"
    rows = json.loads(gradebook("sql", query, "--format", "json").out)
    return {row["case_id"]: (row["level_id"], row["evidence"]) for row in rows}


def test_a_reference_into_a_schema_file_decides_the_verdicts(evaluate, gradebook, rubric):
    assert evaluate("outputs.jsonl", "--rubric", rubric).code == 1
    assert verdicts(gradebook) == {
        "named": ("pass", None),
        "nameless": ("fail", "$.sent_to: '' should be non-empty"),
        "missing": ("fail", "$: 'sent_to' is a required property"),
    }


@pytest.mark.nightly
def test_a_changed_schema_file_asks_for_a_new_version(evaluate, rubric, tmp_path):
    first = evaluate("outputs.jsonl", "--rubric", rubric, "--run-id", "before")
    write_address(tmp_path, minLength=5)
    refused = evaluate("outputs.jsonl", "--rubric", rubric, "--run-id", "after")
    assert (first.code, refused.code) == (1, 2)
    assert "minLength" in refused.err
    rubric.write_text(RUBRIC.replace("1.0.0", "1.1.0"), encoding="utf-8")
    assert evaluate("outputs.jsonl", "--rubric", rubric, "--run-id", "after").code == 1


@pytest.mark.nightly
def test_a_stored_version_is_evaluated_without_its_schema_file(evaluate, gradebook, rubric, tmp_path):
    evaluate("outputs.jsonl", "--rubric", rubric, "--run-id", "before")
    (tmp_path / "schemas" / "address.json").unlink()
    assert evaluate("outputs.jsonl", "--rubric", "ticket_update@1.0.0", "--run-id", "after").code == 1
    assert verdicts(gradebook)["nameless"] == ("fail", "$.sent_to: '' should be non-empty")


def test_a_missing_schema_file_is_refused_before_anything_runs(gradebook, rubric, tmp_path):
    (tmp_path / "schemas" / "address.json").unlink()
    finished = gradebook("evaluate", "outputs.jsonl", "--rubric", rubric, "--dry-run")
    assert (finished.code, "rubric.yaml:6: " in finished.err) == (2, True)
    assert "found no file 'schemas/address.json' beside the rubric" in finished.err
