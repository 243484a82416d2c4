"""The commands `gradebook people ratings ...`."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake

RUBRIC = """
id: rated
version: 1.0.0
criteria:
  - id: tone
    description: Is it kind?
    method: {type: judge}
    levels: [{id: bad, score: 0}, {id: good, score: 1}]
"""
GOOD = {"trace_id": "c1", "annotator": "anna", "rubric": {"criteria_ratings": {"tone": "good"}}}
BAD = GOOD | {"trace_id": "c9"}


@pytest.fixture
def rated(gradebook, tmp_path: Path):
    """`gradebook people ratings WORDS` with a lake of one output and a rubric."""
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    prepare_lake(lake)
    row = {"output_id": "o1", "case_id": "c1", "model": "m", "sample_index": 0, "output": "Dear you"}
    table = pa.Table.from_pylist([row], schema=SHARD_SCHEMA)

    def add(connection: Any, _version: int) -> None:
        connection.register("given", table)
        connection.execute("insert into outputs by name from given")

    commit(lake, "outputs", add)
    (tmp_path / "rubric.yaml").write_text(RUBRIC)
    return lambda *words: gradebook("people", "ratings", *words)


def write(path: Path, *rows: dict[str, Any]) -> Path:
    (path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path / "a.jsonl"


def test_an_import_is_summarised(rated, tmp_path):
    done = rated("import", write(tmp_path, GOOD), "--rubric", "rubric.yaml")
    assert (done.code, done.err) == (0, "")
    assert "format jsonl (detected from its first row)" in done.out
    assert "1 rating by 1 rater of 1 output: 1 new; 0 marks not applicable" in done.out


def test_json_has_the_same_summary(rated, tmp_path):
    words = ("import", write(tmp_path, GOOD, BAD), "--rubric", "rubric.yaml", "--max-bad-rate", "0.5", "--json")
    found = rated(*words).json
    names = ("format", "is_guessed", "new_count", "bad_count", "is_dry_run")
    assert [found[name] for name in names] == ["jsonl", True, 1, 1, False]


def test_a_dry_run_leaves_no_rating(rated, tmp_path):
    done = rated("import", write(tmp_path, GOOD), "--rubric", "rubric.yaml", "--dry-run")
    assert "dry run: nothing was written" in done.out
    assert rated("list", "--json").json == {"ratings": []}


def test_too_many_bad_rows_exit_with_2(rated, tmp_path):
    done = rated("import", write(tmp_path, GOOD, BAD), "--rubric", "rubric.yaml")
    assert done.code == 2
    assert "a.jsonl:2: trace_id c9: found no such output in the lake" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--map", "trace_id=case_id"), "case_id=trace_id is the correct order"),
        (("--max-bad-rate", "2"), "--max-bad-rate: found 2, expected a share"),
        (("--rater", " "), "--rater: found an empty text"),
        (("--format", "csv"), "--format csv: found a JSON file"),
        (("--run", "none"), "--run none: found no such run"),
    ],
)
def test_a_wrong_option_is_reported(rated, tmp_path, words, told):
    done = rated("import", write(tmp_path, GOOD), "--rubric", "rubric.yaml", *words)
    assert (done.code, told in done.err) == (2, True)


def test_list_and_show_print_the_stored_ratings(rated, tmp_path):
    rated("import", write(tmp_path, GOOD), "--rubric", "rubric.yaml")
    (counted,) = rated("list", "--json").json["ratings"]
    assert (counted["rater"], counted["criterion_id"], counted["rating_count"]) == ("anna", "tone", 1)
    shown = rated("show", "c1").out
    assert ("good" in shown, "gold" in shown) == (True, False)  # a column without a value is left out


def test_showing_an_unrated_output_exits_with_2(rated):
    done = rated("show", "o7")
    assert (done.code, "o7: found no rating of it" in done.err) == (2, True)
