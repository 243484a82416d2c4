"""Hostile or clumsy input: an exit code, one sentence that names the place, and nothing published."""

import fcntl
import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.flows.cli import ENTRIES
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.nightly import nightly
from tests.support.samples import query, write_outputs, write_rubric

CHECK = "{type: check, check: length_words, settings: {min: 2}}"
HOSTILE = "\x1b]0;title\x07\x1b[31m<script>alert(1)</script>'\"\n/../x"


def write_checks(path: Path, method: str = CHECK, *, top: str = "", criterion: str = "", levels: str = "") -> Path:
    """Write a rubric with one criterion, `length`; arguments are inserted as they are."""
    criterion = criterion or f"{{id: length, description: Some words., {levels}method: {method}}}"
    path.write_text(f"id: lengths\nversion: 1.0.0\n{top}\ncriteria:\n  - {criterion}\n", encoding="utf-8")
    return path


def row(**columns: object) -> dict[str, object]:
    return {"case_id": "c1", "model": "small", "output": "Some words."} | columns


def write_lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in rows), encoding="utf-8")
    return path


@pytest.fixture
def rubric(tmp_path: Path) -> Path:
    return write_checks(tmp_path / "rubric.yaml")


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "outputs.jsonl", row())


def plan(gradebook, outputs, rubric, *words):
    """`gradebook evaluate --dry-run --json`, which refuses the same input as a run, without Prefect."""
    return gradebook("evaluate", outputs, "--rubric", rubric, "--dry-run", "--json", *words)


def assert_refused(finished, *words, code=2):
    """Check for one sentence on stderr that contains the words, and nothing on stdout."""
    assert finished.code == code, finished.err
    assert finished.out == ""
    assert "Traceback" not in finished.err
    assert "gradebook: unexpected" not in finished.err
    assert [word for word in words if word not in finished.err] == [], finished.err


def test_bytes_that_are_no_utf_8_are_refused_by_each_command(gradebook, monkeypatch, tmp_path):
    for name in ENTRIES:
        words = name.split()
        assert_refused(
            gradebook(*words, "a\udcff"), f"argument {len(words) + 1}: found 'a\\udcff', expected text in UTF-8"
        )
    with monkeypatch.context() as environment:
        environment.setenv("GRADEBOOK_LAKE", "\udcff")
        assert_refused(gradebook("runs"), "GRADEBOOK_LAKE: found '\\udcff', expected text in UTF-8")
    (folder := tmp_path / "a\udcff").mkdir()
    monkeypatch.chdir(folder)
    assert_refused(gradebook("runs"), "the working folder: found ", "expected text in UTF-8")


def test_a_working_folder_that_was_deleted_is_refused(gradebook, monkeypatch, tmp_path):
    (folder := tmp_path / "gone").mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    for words in (["runs"], ["evaluate", tmp_path / "outputs.jsonl", "--rubric", "json_record"]):
        assert_refused(gradebook(*words), "the working folder: found none: it was deleted, expected a folder that ex")


# -------- outputs


def test_a_file_of_outputs_whose_name_is_not_utf_8_is_named(gradebook, rubric, tmp_path):
    (tmp_path / "o").mkdir()
    write_lines(tmp_path / "o" / "a\udcff.jsonl", row())
    for outputs in ("o", "o/*"):
        assert_refused(plan(gradebook, outputs, rubric), "a\\udcff.jsonl: found a name that is not UTF-8, expected one")


LINE = json.dumps(row()).encode() + b"\n"
HEADER = b"case_id,model,output\n"
UNREADABLE = {
    "no_rows.jsonl": (b"", "found no rows"),
    "no_rows.csv": (HEADER, "found no rows"),
    "blank.jsonl": (b"\n\n  \n", "found no rows"),
    "blank.csv": (b"\n\n  \n", "found no rows"),
    "latin.jsonl": (b'{"output": "\xe9"}\n', "latin.jsonl:1: found the byte 0xe9"),
    "latin.csv": (HEADER + b"c,m,\xe9\n", "latin.csv:2: found the byte 0xe9"),
    "cut.jsonl.gz": (gzip.compress(LINE * 99)[:-9], "found a gzip stream that is cut off"),
    "packed.jsonl": (gzip.compress(LINE), "packed.jsonl:1: found a packed file whose name ends neither in .gz"),
    "packed.csv": (gzip.compress(HEADER), "packed.csv:1: found a packed file whose name ends neither in .gz"),
    "plain.jsonl.gz": (LINE, "found a gzip stream that is cut off or damaged"),
    "text.parquet": (LINE, "found a Parquet file that can't be read"),
    "lacks.jsonl": (b'{"case_id": "c", "output": "o"}\n', "expected model"),
    "lacks.csv": (b"case_id,output\nc,o\n", "lacks.csv:1: found the columns case_id, output; expected model"),
    "open.csv": (HEADER + b'c,m,"o\n', "open.csv:2: found quotes unclosed"),
    "array.jsonl": (b'[{"case_id": 1}]\n', "array.jsonl: found the columns case_id; expected model"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_without_outputs_is_refused_with_its_place(gradebook, rubric, tmp_path, name):
    content, words = UNREADABLE[name]
    (tmp_path / name).write_bytes(content)
    assert_refused(plan(gradebook, name, rubric), name, words)


def test_a_missing_parquet_column_is_named(gradebook, rubric, tmp_path):
    pq.write_table(pa.table({"case_id": ["c"], "output": ["o"]}), tmp_path / "lacks.parquet")
    assert_refused(plan(gradebook, "lacks.parquet", rubric), "found the columns case_id, output; expected model")


BAD_ROWS = {
    "an object for text": (row(output={"a": 1}), "output: found an object, expected text, also where it is JSON"),
    "a number for text": (row(output=5), "output: found the number 5, expected text"),
    "null": (row(output=None), "output: found null, expected text"),
    "no object": ([1], "bad.jsonl:1: found the number 1, expected one JSON object"),
    "an empty id": (row(case_id=""), "case_id: found empty text"),
    "a negative sample": (row(sample_index=-1), "sample_index: found the number -1"),
    "a text as metadata": (row(metadata="x"), 'metadata: found the text "x", expected an object'),
}


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_row_of_a_wrong_type_is_named_with_its_line(gradebook, rubric, tmp_path, kind):
    bad, words = BAD_ROWS[kind]
    write_lines(tmp_path / "bad.jsonl", bad)
    assert_refused(plan(gradebook, "bad.jsonl", rubric), "bad.jsonl:1: ", words)


def test_metadata_with_a_thousand_levels_is_refused_as_too_deep(gradebook, rubric, tmp_path):
    metadata = '{"a":' * 1000 + "1" + "}" * 1000
    (tmp_path / "deep.jsonl").write_text(json.dumps(row(metadata=0)).replace(": 0}", f": {metadata}}}"))
    assert_refused(plan(gradebook, "deep.jsonl", rubric), "deep.jsonl:1: ", "expected fewer levels of nesting")


LEGAL = {
    "an empty output": [row(output="")],
    "an output of 10 MB": [row(output="x " * 5_000_000)],
    "control characters": [row(output="a\x00b\x1b\x7f", model="a\x01b", case_id="\x1f")],
    "a lone colon": [row(output=":")],
    "a thousand unknown columns": [row(**{f"k{number}": number for number in range(1000)})],
    "long names": [row(case_id="'/\"\n" * 2500, model="../" * 3334)],
    "duplicates": [row(), row(), row()],
    "a formula": [row(output='=HYPERLINK("x")')],
}


@pytest.mark.parametrize("kind", LEGAL)
def test_unusual_but_valid_rows_are_accepted_once(gradebook, rubric, tmp_path, kind):
    finished = plan(gradebook, write_lines(tmp_path / "odd.jsonl", *LEGAL[kind]), rubric)
    assert finished.code == 0, finished.err
    assert finished.json["output_count"] == 1


def test_two_texts_for_one_slot_are_two_outputs(gradebook, rubric, tmp_path):
    write_lines(tmp_path / "two.jsonl", row(), row(output="Other words."))
    assert plan(gradebook, "two.jsonl", rubric).json["output_count"] == 2


@pytest.mark.parametrize("name", ['it\'s [1] "x" *?.jsonl', "a folder's [1]/outputs.jsonl"])
def test_a_name_with_quotes_and_glob_characters_is_read_as_a_name(gradebook, rubric, tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    write_lines(tmp_path / name, row())
    assert plan(gradebook, name, rubric).json["output_count"] == 1
    assert plan(gradebook, name.removesuffix("/outputs.jsonl"), rubric).json["output_count"] == 1


@pytest.mark.parametrize("name", ["none/*.jsonl", "empty", "others", "others/notes.txt", "", "none.jsonl", "x" * 5000])
def test_a_path_without_outputs_is_named(gradebook, rubric, tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "notes.txt").write_text("x")
    assert_refused(plan(gradebook, name, rubric), name, "found", "expected")


def test_escape_codes_in_a_file_do_not_reach_the_terminal(gradebook, rubric, tmp_path):
    write_lines(tmp_path / "escapes.jsonl", {HOSTILE: 1})
    finished = plan(gradebook, "escapes.jsonl", rubric)
    assert_refused(finished, "\\x1b[31m<script>")
    assert "\x1b" not in finished.err


# -------- rubrics

ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
BAD_RUBRICS = {
    "an unknown key": ({"top": "colour: red"}, "rubric.yaml:3: found the unknown key 'colour'"),
    "no weight": ({"levels": "weight: 0, "}, "found a weight sum of 0"),
    "a YAML bomb": ({"top": ALIASES}, "values with the aliases written out"),
    "a tag": ({"top": "metadata: !!python/object/apply:os.system [id]"}, "found the tag"),
    "an unknown check": ({"method": "{type: check, check: lenght_words}"}, "expected length_words"),
    "bad settings": (
        {"method": "{type: check, check: length_words, settings: {min: x}}"},
        "settings.min: found 'x', expected a whole number",
    ),
    "a pattern of another engine": (
        {"method": "{type: check, check: matches_regex, settings: {pattern: '(?=a)b'}}"},
        "rubric.yaml:5: criteria[0].method.settings",
    ),
    "a remote schema": (
        {"method": "{type: schema, schema: {$ref: 'http://127.0.0.1:9/x.json'}}"},
        "$ref: found 'http://127.0.0.1:9/x.json', expected a place inside the schema",
    ),
    "a path as id": (
        {"criterion": f"{{id: ../../x, description: d, method: {CHECK}}}"},
        "criteria[0].id: found '../../x', expected lower-case letters",
    ),
}


@pytest.mark.parametrize("kind", BAD_RUBRICS)
def test_a_bad_rubric_is_refused_with_its_line(gradebook, outputs, tmp_path, kind):
    places, words = BAD_RUBRICS[kind]
    write_checks(tmp_path / "rubric.yaml", **places)
    assert_refused(plan(gradebook, outputs, "rubric.yaml"), "rubric.yaml:", words)


@pytest.mark.parametrize("name", ["none.yaml", "a_folder", "general_answr", "x" * 5000])
def test_a_missing_rubric_is_named(gradebook, outputs, tmp_path, name):
    (tmp_path / "a_folder").mkdir()
    assert_refused(plan(gradebook, outputs, name), name, "expected")


def test_a_description_of_a_megabyte_is_valid(gradebook, outputs, tmp_path):
    long = write_checks(tmp_path / "long.yaml", top=f"description: {'x' * 2**20}")
    assert plan(gradebook, outputs, long).code == 0


# -------- ratings, replies, judges

RATINGS_HEADER = "case_id,model,criterion_id,rater,level_id\n"
BAD_RATINGS = {
    "an unknown criterion": (RATINGS_HEADER + "c1,small,tone,ann,pass\n", "ratings.csv:2: criterion_id: found 'tone'"),
    "an unknown level": (RATINGS_HEADER + "c1,small,length,ann,great\n", "ratings.csv:2: level_id: found 'great'"),
    "a missing column": ("case_id,model,rater\nc1,small,ann\n", "expected criterion_id among them"),
    "no rows": (RATINGS_HEADER, "ratings.csv: found no ratings"),
    "a sample of many digits": (
        "case_id,model,criterion_id,rater,level_id,sample_index\nc1,small,length,ann,pass,99999999999\n",
        'ratings.csv:2: sample_index: found "99999999999"',
    ),
}


@pytest.mark.parametrize("kind", BAD_RATINGS)
def test_bad_ratings_are_refused_with_their_line(gradebook, outputs, rubric, tmp_path, kind):
    content, words = BAD_RATINGS[kind]
    (tmp_path / "ratings.csv").write_text(content)
    assert_refused(plan(gradebook, outputs, rubric, "--ratings", "ratings.csv"), words)


@pytest.mark.parametrize("name", ["none.csv", "x" * 5000 + ".csv", "a\x00b.csv"])
def test_missing_ratings_are_named(gradebook, outputs, rubric, name):
    finished = plan(gradebook, outputs, rubric, "--ratings", name)
    assert_refused(finished, "found no such file, expected a file of ratings")


REPLY = {"case_id": "c0", "model": "small", "criterion_id": "clarity", "level": "clear"}
BAD_REPLIES = {
    "a wrong level": (json.dumps(REPLY | {"level": "great"}), "level: found 'great', expected a level of clarity"),
    "broken JSON": (json.dumps(REPLY)[:20], "found no JSON, expected a recorded reply"),
    "a list": ("[1]", "replies.jsonl:1: "),
}


@pytest.mark.parametrize("kind", BAD_REPLIES)
def test_bad_recorded_replies_are_refused_with_their_line(gradebook, outputs, tmp_path, kind):
    content, words = BAD_REPLIES[kind]
    (tmp_path / "replies.jsonl").write_text(content)
    rubric = write_rubric(tmp_path / "judged.yaml")
    assert_refused(plan(gradebook, outputs, rubric, "--judge", "replay:replies.jsonl"), "replies.jsonl:1: ", words)


@pytest.mark.parametrize("name", ["none.jsonl", "", "a\x00b", "x" * 5000])
def test_missing_recorded_replies_are_named(gradebook, outputs, rubric, name):
    assert_refused(plan(gradebook, outputs, rubric, "--judge", f"replay:{name}"), "can't be read")


BAD_JUDGES = {
    "an unknown setting": (
        "model: m\ncolour: red\n",
        "colour: found an unknown setting, expected one of base_url, key, key_header,",
    ),
    "another protocol": ("model: m\nbase_url: ftp://x\n", "base_url: found something else, expected an address that"),
    "half an address": ("model: m\nbase_url: 'http://[::1'\n", "expected an address that begins with http://"),
    "a port of many digits": (
        "model: m\nbase_url: http://x:99999999\n",
        "expected an address that begins with http://",
    ),
    "no model": ("max_tokens: 3\n", "model: found nothing"),
    "nothing": ("", "found an empty file"),
    "a date that is none": ("model: 2026-13-45\n", "found no YAML"),
    "deep YAML": ("model: " + "[" * 3000 + "]" * 3000, "it is nested too deeply"),
    "a NUL in a name": ('model: "a\\0b"\n', "a name without control characters"),
}


@pytest.mark.parametrize("kind", BAD_JUDGES)
def test_a_bad_judge_file_is_refused_with_its_setting(gradebook, outputs, rubric, tmp_path, kind):
    content, words = BAD_JUDGES[kind]
    (tmp_path / "judge.yaml").write_text(content)
    assert_refused(plan(gradebook, outputs, rubric, "--judge", "judge.yaml"), "judge.yaml: ", words)


def test_a_model_name_longer_than_a_file_name_is_a_model_name(gradebook, outputs, rubric):
    assert plan(gradebook, outputs, rubric, "--judge", "m" * 5000).code == 0


# -------- options

BAD_OPTIONS = {
    "a budget without a price": (
        ("--judge", "my-model", "--budget-usd", "5"),
        "--budget-usd: found no price of my-model",
    ),
    "a negative budget": (("--budget-usd", "-1"), "--budget-usd: found -1, expected dollars, 0 or more"),
    "a budget of nan": (("--budget-usd", "nan"), "--budget-usd: found nan"),
    "a share of 7": (("--max-bad-rate", "7"), "--max-bad-rate: found 7, expected a share of 0 to 1"),
    "a map without a name": (("--map", "output"), "--map: found 'output', expected COLUMN=NAME_IN_THE_FILE"),
    "a map of no column": (("--map", "nope=x"), "--map nope=x: found nope, expected one of case_id"),
    "a map to no column": (("--map", "output=zzz"), "expected zzz, which --map output=zzz names\n"),
    "two maps in one": (("--map", "output=a,prompt=b"), "names; repeat --map for each column"),
    "a path as run id": (("--run-id", "../x"), "--run-id: found '../x', expected up to 80 letters"),
    "an empty run id": (("--run-id", ""), "--run-id: found ''"),
    "a lake of no kind": (("--lake", "nonsense"), "--lake: found 'nonsense', expected sqlite:FILE or postgres:"),
    "data elsewhere": (
        ("--data", "gs://bucket/y"),
        "--data: found 'gs://bucket/y', expected a local folder or s3://BUCKET/PREFIX",
    ),
    "two sets of outputs": (
        ("more.jsonl",),
        "evaluate: found also more.jsonl, expected one path, a glob in quotes;",
    ),
    "an unknown option": (
        ("--colour", "red"),
        "evaluate: found the unknown option --colour, expected --log or",
    ),
    "a budget in words": (("--budget-usd", "five"), "--budget-usd: found 'five', expected a valid number;"),
    "an option without its value": (("--judge",), "--judge: found no value, expected one after it\n"),
}


@pytest.mark.parametrize("kind", BAD_OPTIONS)
def test_a_bad_option_is_refused_by_its_name(gradebook, outputs, rubric, kind):
    words, sentence = BAD_OPTIONS[kind]
    assert_refused(plan(gradebook, outputs, rubric, *words), sentence)


def test_an_unknown_command_offers_the_nearest(gradebook):
    assert_refused(gradebook("evaluat"), "COMMAND: found 'evaluat', expected evaluate;")


# -------- lakes


@pytest.mark.parametrize(
    ("lake", "words"),
    [
        ("a_file/catalog.sqlite", "can't make the lake's folder"),
        ("/proc/lake/catalog.sqlite", "/proc/lake: can't make the lake's folder"),
        ("a_file", "the lake can't be opened"),
        (".", "the lake can't be opened"),
        ("x" * 3000, "the lake can't be opened"),
    ],
)
def test_a_lake_that_cant_be_made_is_refused_before_prefect_starts(gradebook, outputs, rubric, tmp_path, lake, words):
    (tmp_path / "a_file").write_text("no database " * 500)
    assert_refused(gradebook("evaluate", outputs, "--rubric", rubric, "--lake", f"sqlite:{lake}", "--json"), words)


@pytest.mark.parametrize(
    ("named", "words", "sentence"),
    [
        (None, ["--map", "output=answer"], "which --map output=answer names"),
        *nightly(
            [
                ("none", [], "outputs: found no row with criteria of its own"),
                (None, ["--run-id", "r1"], "--run-id: found r1, which evaluated other outputs"),
            ]
        ),
    ],
)
def test_what_is_found_early_is_refused_before_prefect_is_imported(outputs, rubric, tmp_path, named, words, sentence):
    taken = RunFolder(tmp_path / "lake" / "runs" / "r1")
    taken.path.mkdir(parents=True)
    taken.identity_file.write_text(json.dumps({"fingerprint": "another", "created_at": "2026-11-01T00:00:00+00:00"}))
    words = ["evaluate", str(outputs), "--rubric", named or str(rubric), *words]
    program = (
        f"import sys; sys.argv = ['gradebook', *{words}]\n"
        "from gradebook.flows.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: sys.exit(end.code if 'prefect' not in sys.modules else 'Prefect is imported')\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (finished.returncode, sentence in finished.stderr) == (2, True), finished.stderr


def test_reading_does_not_change_another_program_s_database(gradebook, tmp_path):
    import sqlite3

    database = sqlite3.connect(tmp_path / "other.sqlite")
    database.execute("create table theirs (a)")
    database.close()
    before = (tmp_path / "other.sqlite").read_bytes()
    assert_refused(gradebook("sql", "select 1", "--lake", "sqlite:other.sqlite"), "other.sqlite: found no lake there")
    assert (tmp_path / "other.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("sql", "select 1"),
        ("runs", "--json"),
        ("report",),
        (
            "lake",
            "mcp",
        ),
    ],
)
def test_reading_does_not_create_a_missing_lake(gradebook, tmp_path, words):
    assert_refused(gradebook(*words), "lake/catalog.sqlite: found no lake there, expected one")
    assert not (tmp_path / "lake").exists()


# -------- sql and report over a published lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Lake in a folder with an awkward name, with a run of hostile outputs, `evil`, and a failed one, `failed`."""
    from gradebook.flows.evaluate_here import evaluate_here
    from gradebook.rubrics.model.errors import OutputsError
    from gradebook.tasks.runs.request import EvaluationRequest

    folder = tmp_path_factory.mktemp("lakes")
    rubric = write_checks(folder / "rubric.yaml")
    evil = row(case_id=HOSTILE, model=HOSTILE, checkpoint=HOSTILE, prompt=HOSTILE, output=HOSTILE + "\x00")
    rows = [evil, row(output=""), row(output=":"), row(case_id="../../x", output="=1+1"), row(output=None)]
    outputs = write_lines(folder / "it's [1].jsonl", *rows)
    uri = f'sqlite:{folder}/a lake\'s "x" [1]/catalog.sqlite'
    request = EvaluationRequest(str(outputs), str(rubric), lake=uri, run_id="evil", max_bad_rate=0.2)  # 1 bad row of 5
    evaluate_here(request, is_shown=False)
    with pytest.raises(OutputsError):
        evaluate_here(replace(request, run_id="failed", max_bad_rate=0.1, trigger="nightly"), is_shown=False)
    with pytest.raises(OutputsError):
        evaluate_here(replace(request, run_id="refused", max_bad_rate=0.1), is_shown=False)
    return uri


def test_hostile_text_is_stored_unchanged(gradebook, lake):
    sql = "select model, checkpoint, output from outputs where contains(case_id, 'script')"
    rows = query(gradebook, sql, "--lake", lake)
    assert rows == [{"model": HOSTILE, "checkpoint": HOSTILE, "output": HOSTILE + "\x00"}]


def test_an_empty_output_is_scored(gradebook, lake):
    sql = "select status, score from verdicts inner join outputs using (output_id) where output = ''"
    assert query(gradebook, sql, "--lake", lake) == [{"status": "scored", "score": 0.0}]  # no word of two


def test_a_null_output_is_in_the_quarantine_with_its_line(gradebook, lake):
    rows = query(gradebook, "select run_id, line, reason from quarantine", "--lake", lake)
    assert rows == [{"run_id": "evil", "line": 5, "reason": "output: found null, expected text"}]


def test_a_refused_command_leaves_no_run(gradebook, lake):
    assert query(gradebook, "select run_id from runs order by 1", "--lake", lake) == [
        {"run_id": "evil"},
        {"run_id": "failed"},
    ]
    runs = Path(lake.removeprefix("sqlite:")).parent / "runs"
    assert sorted(path.name for path in runs.iterdir()) == ["evil", "failed"]


@pytest.mark.nightly
def test_a_failed_nightly_run_leaves_only_its_row_with_the_reason(gradebook, lake):
    (run,) = query(gradebook, "select status, reason from runs where run_id = 'failed'", "--lake", lake)
    assert run["status"] == "failed"
    assert "found 1 of 5 rows that do not fit" in run["reason"]
    for table in ("verdicts", "output_scores", "run_scores", "quarantine"):
        assert query(gradebook, f"from {table} where run_id = 'failed'", "--lake", lake) == []


@pytest.mark.parametrize(
    "sql", ["from outputs", "from run_scores", 'select 1 as "\x1b[31m"', "select '[/nope]' as \"[/nope]\""]
)
def test_a_table_in_a_terminal_has_no_escape_codes(gradebook, lake, sql):
    finished = gradebook("sql", sql, "--lake", lake)
    assert finished.code == 0, finished.err
    assert not [letter for letter in finished.out if not letter.isprintable() and letter != "\n"]


def test_the_summary_of_a_run_has_no_escape_codes(gradebook, lake, capsys):
    from gradebook.flows.display.summary import show_summary
    from gradebook.tasks.lake.address import find_lake
    from gradebook.tasks.published.summary import summarise

    show_summary(summarise(find_lake(lake), "evil"), report=None)
    out, err = capsys.readouterr()
    assert "<script>" in out
    assert "\x1b" not in out + err


@pytest.mark.nightly
def test_the_report_escapes_the_text_of_outputs_and_models(gradebook, lake, tmp_path):
    assert gradebook("report", "evil", "--out", "report.html", "--lake", lake).code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


BAD_QUERIES = {
    "a syntax error": (("selec 1",), 'syntax error at or near "selec"'),
    "an unknown table": (("from run_score",), 'Did you mean "run_scores"'),
    "two statements": (("select 1; select 2",), "found 2 statements, expected one"),
    "a write": (("delete from runs",), "found a statement of type DELETE, expected one that only reads"),
    "a file": (("from read_text('/etc/passwd')",), "read_text"),
    "a version to come": (("from runs", "--at", "99999"), "--at: found 99999, expected a version of the lake"),
    "a negative version": (("from runs", "--at", "-1"), "--at: found '-1', expected a version"),
    "Parquet on stdout": (("from runs", "--format", "parquet"), "--out: found none, expected a file"),
    "no name": (("from runs", "--out", ""), "--out: found '.', expected a file name"),
    "a folder": (("from runs", "--out", "folder"), "--out: can't write folder: Is a directory"),
    "below a file": (("from runs", "--out", "file/x.csv"), "--out: can't write file/x.csv"),
    "below /proc": (("from runs", "--format", "parquet", "--out", "/proc/x"), "--out: can't write /proc/x"),
    "a date of no calendar": (("select 'infinity'::timestamp", "--format", "json"), "expected a cast"),
    "a column twice": (("select 1 as a, 2 as a", "--format", "json"), "found a more than once"),
}


@pytest.mark.parametrize("kind", BAD_QUERIES)
def test_a_bad_query_is_refused_in_a_sentence(gradebook, lake, tmp_path, kind):
    words, sentence = BAD_QUERIES[kind]
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    assert_refused(gradebook("sql", *words, "--lake", lake), sentence)


def test_writing_rows_creates_the_missing_folder(gradebook, lake, tmp_path):
    assert gradebook("sql", "select 1 as a", "--out", "new/rows.csv", "--lake", lake).code == 0
    assert (tmp_path / "new" / "rows.csv").read_text() == "a\n1\n"


def test_an_integer_of_128_bits_keeps_its_digits_in_json(gradebook, lake):
    rows = query(gradebook, f"select {10**30}::hugeint as wide, 7::hugeint as narrow", "--lake", lake)
    assert rows == [{"wide": str(10**30), "narrow": 7}]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        *nightly(
            [
                (("nobody",), "run: found no 'nobody'"),
                (("../../x",), "run: found no '../../x'"),
                (("failed",), "run: failed is failed"),
            ]
        ),
        (("evil", "--out", "folder"), "--out: can't write folder: Is a directory"),
        *nightly([(("evil", "--out", "/proc/x.html"), "--out: can't write /proc/x.html")]),
    ],
)
def test_a_report_that_cant_be_written_says_why(gradebook, lake, tmp_path, words, sentence):
    (tmp_path / "folder").mkdir()
    assert_refused(gradebook("report", *words, "--lake", lake), sentence)


# -------- runs that stop early


@pytest.mark.nightly
def test_a_rating_that_fits_two_outputs_is_refused(evaluate, gradebook, rubric, tmp_path):
    outputs = write_lines(tmp_path / "two.jsonl", row(sample_index=0), row(sample_index=1))
    (tmp_path / "ratings.csv").write_text(RATINGS_HEADER + "c1,small,length,ann,pass\n")
    finished = evaluate(outputs, "--rubric", rubric, "--ratings", "ratings.csv")
    assert_refused(finished, "ratings.csv:2: c1 of small: found 2 outputs, expected one")
    assert query(gradebook, "from verdicts") == []


def test_a_quota_that_ends_stops_the_run(evaluate, gradebook, judge, tmp_path):
    judge.faults = ["quota"] * 12
    outputs, rubric = write_outputs(tmp_path / "outputs.jsonl"), write_rubric(tmp_path / "judged.yaml")
    assert_refused(evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini"), "the quota is used up", code=3)
    assert judge.request_count <= 12
    assert query(gradebook, "from verdicts") == []


def test_a_budget_of_zero_sends_no_request(evaluate, gradebook, judge, tmp_path):
    outputs, rubric = write_outputs(tmp_path / "outputs.jsonl"), write_rubric(tmp_path / "judged.yaml")
    finished = evaluate(outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--budget-usd", "0")
    assert_refused(finished, "budget", code=3)
    assert judge.request_count == 0


@pytest.mark.parametrize("host", ["127.0.0.1:9", *nightly(["a..b", "\u2603.invalid"])])
def test_a_missing_endpoint_is_named(evaluate, outputs, tmp_path, monkeypatch, host):
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://{host}/v1")
    finished = evaluate(outputs, "--rubric", write_rubric(tmp_path / "judged.yaml"), "--judge", "gpt-4o-mini")
    assert_refused(finished, f"http://{host}/v1: ", code=3 if host == "127.0.0.1:9" else 2)


def test_a_run_locked_by_another_process_is_refused(evaluate, outputs, rubric, tmp_path):
    folder = tmp_path / "lake" / "runs" / "held"
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        finished = evaluate(outputs, "--rubric", rubric, "--run-id", "held")
    assert_refused(finished, "--run-id: found held, which another process is evaluating now")
