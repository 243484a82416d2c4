"""Files that rows and rubrics name: none but regular ones, of limited size, below the rubric's folder."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from gradebook.flows import cli
from gradebook.rubrics.check_kit.check import is_panic, read_settings
from gradebook.rubrics.checks.grading import PANIC, run_check
from gradebook.rubrics.checks.length import TokenSettings
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.files.case_criteria import case_criteria_fault
from gradebook.rubrics.files.load import parse_rubric, read_rubric
from gradebook.rubrics.files.validate import unreadable_files
from gradebook.rubrics.files.versions import canonical_body, rubric_digest, rubric_from_body
from gradebook.rubrics.model.errors import GradebookError, RubricError
from gradebook.rubrics.model.methods import CheckMethod
from gradebook.tasks.datasets.decompression import open_decompressed
from gradebook.tasks.judging.settings.files import read_endpoint, read_judge
from gradebook.tasks.operations.suites import read_suites
from gradebook.tasks.runs.function_settings import read_function_settings
from gradebook.tasks.stages.review import rubrics_for
from tests.support.scored_rows import score_rows

HEAD = "id: mine\nversion: 1.0.0\ndescription: d\n"
SECRET = "hunter2 is my password"


def counting(tokenizer: str) -> dict[str, Any]:
    method = {"type": "check", "check": "length_tokens", "settings": {"tokenizer": tokenizer, "max": 1}}
    return {"id": "short", "description": "Is it short?", "threshold": 1, "method": method}


def counting_rubric(tokenizer: str) -> str:
    return f"{HEAD}criteria: [{counting(tokenizer)}]\n"


def write_tokenizer(path: Path, pattern: str = r"\w+") -> None:
    """A token for each match and between two; the pattern is matched by backtracking."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))


def shard_of(*outputs: str) -> pa.Table:
    return pa.table({"output_id": [str(index) for index in range(len(outputs))], "output": outputs})


@pytest.fixture
def panicking(tmp_path: Path) -> TokenSettings:
    """A tokenizer that panics over many x."""
    write_tokenizer(tmp_path / "tok.json", "(x+x+)+y")
    check = find_check("length_tokens")
    settings = read_settings(check, {"tokenizer": "tok.json", "max": 5}, tmp_path)
    assert isinstance(settings, TokenSettings)
    return settings


# -------- rows
@pytest.mark.parametrize("name", ["/dev/zero", "/etc/shadow", "/etc/nonexistent", "fifo", "tok.json", "../tok.json"])
def test_the_criteria_of_a_row_name_no_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    write_tokenizer(Path("tok.json"))
    expected = f"found the file {name}, expected none: only the file of a rubric may name files"
    assert case_criteria_fault([counting(name)]) == f"criteria[0].method.settings: {expected}"


def test_an_output_that_is_linted_as_a_rubric_names_no_file():
    check = find_check("rubric_lint")
    found = run_check(check, shard_of(counting_rubric("/dev/zero")), read_settings(check, {}))
    assert "expected none: only the file of a rubric may name files" in found.evidence[0].as_py()


# -------- rubrics
def test_a_tokenizer_lies_below_the_folder_of_the_rubric(tmp_path, monkeypatch):
    write_tokenizer(tmp_path / "rubrics" / "in" / "tok.json")
    (tmp_path / "rubrics" / "mine.yaml").write_text(counting_rubric("in/tok.json"), encoding="utf-8")
    monkeypatch.chdir("/")
    (criterion,) = read_rubric(tmp_path / "rubrics" / "mine.yaml").criteria
    verdicts = score_rows(criterion, shard_of("tea", "tea and cake"))
    assert verdicts.column("score").to_pylist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/dev/zero", "found '/dev/zero', expected a path below the rubric's folder"),
        ("../tok.json", "found '../tok.json', expected a path below the rubric's folder"),
        ("link.json", "found 'link.json', which leads out of the rubric's folder"),
        ("fifo", "found no file 'fifo' beside the rubric"),
        ("private.json", "found private.json, which the package tokenizers can't read"),
    ],
)
def test_no_other_file_is_read_as_a_tokenizer(tmp_path, name, said):
    folder = tmp_path / "rubrics"
    write_tokenizer(tmp_path / "tok.json")
    folder.mkdir()
    (folder / "link.json").symlink_to(tmp_path / "tok.json")
    (folder / "private.json").write_text(f'{{"version": "1.0", "model": {{"type": "{SECRET}"}}}}', encoding="utf-8")
    os.mkfifo(folder / "fifo")
    with pytest.raises(RubricError) as caught:
        parse_rubric(counting_rubric(name), "mine.yaml", folder)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_rubric_that_extends_one_in_a_folder_below_reads_its_tokenizer(tmp_path):
    write_tokenizer(tmp_path / "base" / "tok.json")
    (tmp_path / "base" / "base.yaml").write_text(counting_rubric("tok.json"), encoding="utf-8")
    method = parse_rubric(f"{HEAD}extends: base/base.yaml\n", "mine.yaml", tmp_path).criteria[0].method
    assert isinstance(method, CheckMethod)
    assert (method.settings["tokenizer"], method.folder) == ("base/tok.json", tmp_path)


def test_the_folder_is_no_part_of_the_digest_and_a_stored_rubric_has_none(tmp_path):
    for name in ("one", "two"):
        write_tokenizer(tmp_path / name / "tok.json")
    one, two = (parse_rubric(counting_rubric("tok.json"), "a", tmp_path / name) for name in ("one", "two"))
    assert rubric_digest(one) == rubric_digest(two)
    assert unreadable_files(one.criteria) == []
    assert unreadable_files(rubric_from_body(canonical_body(one)).criteria) == [("short", "tokenizer")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/dev/zero", "found '/dev/zero', expected a path below the rubric's folder"),
        ("../private.yaml", "expected a path below the rubric's folder"),
        ("link.yaml", "found 'link.yaml', which leads out of the rubric's folder"),
        ("fifo", "found 'fifo', expected a file or a shipped rubric"),
        ("private.yaml", "found a rubric with faults of its own"),
        ("private.json", "found a rubric with faults of its own"),
        ("large.yaml", "found more than 10,000,000 bytes in 'large.yaml'"),
    ],
)
def test_a_rubric_extends_rubrics_below_its_folder_and_repeats_no_other_file(tmp_path, name, said):
    folder = tmp_path / "rubrics"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / "private.yaml").write_text(f"id: {SECRET}\n{SECRET}: 1\n", encoding="utf-8")
    (folder / "private.json").write_text(f'{{"key": "{SECRET}", "key": 1}}', encoding="utf-8")
    (folder / "link.yaml").symlink_to(tmp_path / "private.yaml")
    (folder / "large.yaml").write_bytes(b"#" * 10_000_001)
    os.mkfifo(folder / "fifo")
    with pytest.raises(RubricError) as caught:
        parse_rubric(f"{HEAD}extends: {name}\n", "mine.yaml", folder)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", [f'["{SECRET}"]', f'"{SECRET}"', f'{{"{SECRET}": 1, "{SECRET}": 2}}'])
@pytest.mark.parametrize("name", ["private.json", "private.yaml"])
def test_a_file_that_is_no_schema_is_not_repeated(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    rubric = f"{HEAD}schemas: {{a.json: {name}}}\ncriteria: [{counting('tok.json')}]\n"
    with pytest.raises(RubricError) as caught:
        parse_rubric(rubric, "mine.yaml", tmp_path)
    assert "schemas.a.json: found" in str(caught.value)
    assert SECRET not in str(caught.value)


# -------- files that a suites file, a folder or a command names
@pytest.mark.parametrize("kind", ["fifo", "endless", "large"])
def test_a_file_that_may_have_no_end_is_refused_wherever_one_is_read_whole(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "a.jsonl", "gradebook.toml"):
        if kind == "fifo":
            os.mkfifo(name)
        elif kind == "endless":
            Path(name).symlink_to("/dev/zero")
        else:
            Path(name).touch()
            os.truncate(name, 2_000_000_000)
    said = "more than [0-9,]+ bytes" if kind == "large" else "neither a file nor a link to one"
    readers = {
        "rubric": lambda: read_rubric("./a.yaml"),
        "judge": lambda: read_judge("./a.yaml", {}),
        "endpoint": lambda: read_endpoint("./a.yaml", {}),
        "replay": lambda: read_judge("replay:a.jsonl", {}),
        "suites": lambda: read_suites(Path("a.yaml")),
        "review file": lambda: rubrics_for("code", Path("a.yaml")),
        "functions": lambda: read_function_settings(Path(), {}),
    }
    if kind != "large":  # plain files of ratings are read as a stream
        readers["ratings"] = lambda: open_decompressed(Path("a.jsonl"), None)
    for reader in readers.values():
        with pytest.raises((GradebookError, OSError), match=said):
            reader()


# -------- panics
def test_an_output_that_a_tokenizer_panics_over_stays_unscored_and_no_other(panicking):
    outputs = ["tea", "x" * 200, "xxy" * 9, "x" * 201, "cake"]
    found = run_check(find_check("length_tokens"), shard_of(*outputs), panicking)
    assert found.is_passed.to_pylist() == [True, None, False, None, True]
    assert found.reasons is not None
    assert found.reasons.to_pylist() == [None, PANIC, None, PANIC, None]


def test_a_panic_anywhere_else_ends_the_command_as_not_finished(panicking, monkeypatch, capsys):
    def fails(**_options: object) -> None:
        panicking.count(["x" * 200])

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    assert "gradebook: unexpected PanicException" in capsys.readouterr().err


def test_a_panic_is_told_from_other_errors(panicking):
    with pytest.raises(BaseException, match="Onig|regex|retry") as caught:
        panicking.count(["x" * 200])
    assert is_panic(caught.value)
    assert not is_panic(KeyboardInterrupt())
