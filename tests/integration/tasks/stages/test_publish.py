"""Publication of outputs of which the lake has some."""

from pathlib import Path

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: short
version: 1.0.0
criteria:
  - {id: short, description: Is it short?, method: {type: check, check: length_words, settings: {max: 5}}}
"""
OWN = {
    "id": "own",
    "description": "Is it kind?",
    "method": {"type": "judge"},
    "levels": [{"id": "no", "score": 0, "description": "a\x00b"}, {"id": "yes", "score": 1}],
}


@pytest.mark.nightly
def test_nuls_in_the_lists_of_new_outputs_are_stored_beside_outputs_of_an_earlier_run(tmp_path: Path):
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text(RUBRIC, encoding="utf-8")
    known = {"case_id": "a", "model": "m", "output": "x"}
    steps = [{"kind": "tool", "name": "t", "output": "a\x00b"}]
    new = {"case_id": "b", "model": "m", "output": "y", "context": ["c\x00d"], "steps": steps, "criteria": [OWN]}
    publish(write_lines(tmp_path / "outputs.jsonl", [known]), rubric)
    publish(write_lines(tmp_path / "outputs.jsonl", [known, new]), rubric, run_id="second")
    with connect(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"), read_only=True) as connection:
        stored = connection.execute("select context, steps[1].output from outputs order by case_id").fetchall()
        levels = connection.execute("select levels[1].description from case_criteria").fetchall()
    assert (stored, levels) == ([(None, None), (["c\x00d"], "a\x00b")], [("a\x00b",)])
