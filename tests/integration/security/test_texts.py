"""Text of outputs, rubrics and replies where it could be more than text: YAML, CSV, terminals, names of files."""

import csv
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from gradebook.flows.display.tables import write_rows
from gradebook.flows.display.terminal import for_stdout, plain
from gradebook.rubrics.files.load import parse_rubric, read_rubric
from gradebook.rubrics.model.errors import JudgeSettingsError, RubricError
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.runs.request import refuse_bad_run_id
from tests.support.bounded import bounded_work
from tests.support.law_over import law_over
from tests.support.samples import write_rubric

ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\r\b\u202e[/bold]"
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)
YAML_BOMBS = {
    "aliases of aliases": f"{ALIASES}model: *a9\nid: *a9\n",
    "an alias of itself": "model: &a [*a]\nid: &b [*b]\n",
    "deep nesting": "model: " + "[" * 5_000 + "]" * 5_000 + "\n",
    "a number of many digits": f"model: m\nmax_tokens: {'9' * 50_000}\nid: {'9' * 50_000}\n",
    "a number in sixties": f"model: m\nmax_tokens: {':'.join(['1'] * 200_000)}\n",
    "merged keys": "a: &a {b: 1}\nmodel: {<<: *a}\n",
    "an object of Python": "model: !!python/object/apply:os.system ['touch hacked']\n",
}


@pytest.mark.parametrize("kind", YAML_BOMBS)
def test_a_judge_file_that_stands_for_very_much_is_refused_soon(tmp_path, kind):
    (tmp_path / "judge.yaml").write_text(YAML_BOMBS[kind], encoding="utf-8")
    with bounded_work(), pytest.raises(JudgeSettingsError, match=r"judge\.yaml.* expected ") as caught:
        read_judge(str(tmp_path / "judge.yaml"), {})
    assert len(str(caught.value)) < 60_000
    assert not Path("hacked").exists()


@law_over("kind", YAML_BOMBS)
def test_a_rubric_that_stands_for_very_much_is_refused_soon(kind):
    with bounded_work(), pytest.raises(RubricError):
        parse_rubric(YAML_BOMBS[kind], "rubric.yaml")
    assert not Path("hacked").exists()


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "..", "a\\b", "a\x00", "", "a b", "con:", "\u202e"])
def test_no_criterion_is_named_like_a_path(tmp_path, name):
    path = write_rubric(tmp_path / "rubric.yaml")
    quoted = re.sub(r"[^ -~]", lambda letter: f"\\u{ord(letter[0]):04x}", name.replace("\\", "\\\\"))
    path.write_text(path.read_text("utf-8").replace("- id: length", f'- id: "{quoted}"'), encoding="utf-8")
    with pytest.raises(RubricError):
        read_rubric(path)


@law_over("name", ["../x", "/etc/x", "a/b", "..", ".", "-x", "a\x00", "", "a b", "x" * 81])
def test_no_run_is_named_like_a_path(name):
    with pytest.raises(Exception, match="--run-id: found"):
        refuse_bad_run_id(name)


def test_a_cell_of_csv_is_written_as_it_is(gradebook, tmp_path):
    """CSV is for programs: an apostrophe before a formula would be one more letter of the text."""
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    prepare_lake(lake)
    cells = ["=1+1", "+1", "-1", "@a", "\t=1", '=cmd|" /C calc"!A0', 'a "b", c']
    insert = "insert into runs (run_id, reason) select i::varchar, r from (select unnest(?) r, unnest(range(7)) i)"
    commit(lake, "formulas", lambda connection, _: connection.execute(insert, [cells]) and None)
    finished = gradebook("sql", "select reason from runs order by run_id", "--format", "csv")
    assert [row["reason"] for row in csv.DictReader(io.StringIO(finished.out))] == cells


def test_a_text_in_a_terminal_is_one_line_of_plain_letters():
    assert plain(ESCAPES) == r"\x1b]0;title\x07\x1b[2J\x9b31m\r\x08\u202e[/bold]"


HOSTILE = "a\x9b31m\u202eb\U000e0041\x1b]0;x\x07é"
SHOWN = "a\\u009b31m\\u202eb\\udb40\\udc41\\u001b]0;x\\u0007é"


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_rows_on_a_terminal_have_no_character_that_steers_it(monkeypatch, form, is_terminal):
    stdout = io.StringIO()
    monkeypatch.setattr(stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr("sys.stdout", stdout)
    write_rows(pa.table({"a\u202e": [HOSTILE]}), form, None)
    written = stdout.getvalue()
    assert all(letter.isprintable() or letter == "\n" for letter in written) is is_terminal
    assert (SHOWN in written) is is_terminal or form == "json"
    if form == "json":
        assert json.loads(written) == [{"a\u202e": HOSTILE}]


def test_a_rubric_on_a_terminal_has_no_character_that_steers_it(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert for_stdout(f"description: {HOSTILE}\n") == f"description: {SHOWN}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)
    assert for_stdout(HOSTILE) == HOSTILE
