"""Completion of values by the shell, asked as bash asks it."""

from pathlib import Path

import pytest

from gradebook.flows.commands.options import PANELS
from gradebook.tasks.runs.request import Use, options_of
from tests.support.new_lakes import write_copy
from tests.support.replicated_lake import make_rubric
from tests.support.scored_lake import make_lake, write_scores

RUNS = ["nightly-1", "nightly-2"]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Current folder with a lake of two runs."""
    write_copy(tmp_path, publish_runs)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def publish_runs(folder: Path) -> None:
    lake, rubric = make_lake(folder), make_rubric("r", {"id": "tone", "weight": 1})
    for run_id in RUNS:
        write_scores(lake, run_id, rubric, [{"case_id": "c", "scores": {}}])


@pytest.fixture
def completed(gradebook, monkeypatch: pytest.MonkeyPatch):
    """Names that are offered for the last of these words, sorted, and nothing on stderr."""

    def complete(*words: str) -> list[str]:
        monkeypatch.setenv("_GRADEBOOK_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["gradebook", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        finished = gradebook()
        assert (finished.code, finished.err) == (0, "")
        return sorted(finished.out.split())

    return complete


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("compare", "nightly-1", "nightly"), RUNS),
        (("evaluate", "outputs.jsonl", "--baseline", "l"), ["latest", "latest_met"]),
        (("report", "l"), ["latest"]),
        (("evaluate", "outputs.jsonl", "--rubric", "general"), ["general_answer"]),
        (("rubric", "show", "json_"), ["json_record"]),
        (("rubric", "show", "r@"), ["r@1.0.0"]),
        (("rubric", "checks", "show", "length_w"), ["length_words"]),
        (("people", "agreement", "--criterion", "to"), ["tone"]),
        (("why", "nightly-1", "c", "to"), ["tone"]),
        (("runs", "--at", "nightly-1"), ["nightly-1"]),
        (("evaluate", "outputs.jsonl", "--gate", "b"), ["baseline", "both"]),
        (("comp",), ["compare"]),
    ],
)
@pytest.mark.usefixtures("lake")
def test_names_are_completed(completed, words, names):
    assert completed(*words) == names


def test_rubric_files_are_completed_but_no_other_settings(completed, lake):
    for name, text in (("my.yaml", "id: my\ncriteria: []"), ("my_judge.yaml", "model: m")):
        (lake / name).write_text(text, encoding="utf-8")
    assert completed("rubric", "show", "my") == ["my.yaml"]


def test_run_ids_are_those_of_the_lake_that_is_named(completed, lake):
    (lake / "lake").rename(lake / "other")
    assert completed("report", "--lake", "sqlite:other/catalog.sqlite", "night") == RUNS


@pytest.mark.parametrize("words", [("report", ""), ("people", "agreement", "--criterion", "")])
def test_without_a_lake_nothing_is_completed_and_nothing_is_said(completed, words):
    assert completed(*words) == []


def test_a_file_in_place_of_the_lake_is_no_fault(completed, tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.sqlite").write_text("no database")
    assert completed("agreement", "--criterion", "") == []


def test_the_folders_of_runs_are_enough(completed, tmp_path):
    (tmp_path / "lake" / "runs" / "nightly-7").mkdir(parents=True)
    (tmp_path / "lake" / "runs" / "nightly-\x1b[2J").mkdir()
    assert completed("cost", "nig") == ["nightly-7"]


def test_each_option_of_evaluate_is_below_one_heading():
    listed = [name for names in PANELS.values() for name in names]
    assert sorted(listed) == sorted(option.name for option in options_of(Use.COMMAND))


def test_the_help_of_evaluate_has_the_headings_in_their_order(gradebook):
    lines = gradebook("evaluate", "--help").out.splitlines()
    assert [line[:-1] for line in lines if line[:-1] in PANELS] == list(PANELS)


def test_the_version_is_printed(gradebook):
    assert gradebook("--version").out.startswith("gradebook 0.")
