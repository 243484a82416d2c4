"""Tables of every command on a console of 80 columns."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradebook.flows.cli import ENTRIES, GROUPS
from gradebook.flows.display.terminal import stdout
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit
from tests.support.nightly import matrix
from tests.support.replicated_lake import make_rubric, write_replicates
from tests.support.samples import RUBRIC, write_outputs, write_rubric
from tests.support.scored_lake import make_lake

RUNS = ("20261101-020000-a1b2c3", "20261102-020000-d4e5f6")
CRITERIA = ("answers_the_question_that_was_asked_first", "answers_the_question_that_was_asked_last")
COLUMNS = 80


RATINGS = """
update verdicts set method = 'judge';
insert into ratings by name
select output_id, criterion_id, rater, if(score > 0.5, 'l2', 'l0') as level_id, if(score > 0.5, 1, 0) as score
from verdicts, (values ('ann'), ('bob')) as raters(rater)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two published runs of two models, judged twice by a judge, on two criteria with long ids."""
    return _made(tmp_path_factory.mktemp("tables"), 40)


def _made(folder: Path, output_count: int) -> Path:
    lake = make_lake(folder)
    rubric = make_rubric("support_replies_of_the_night", *({"id": name, "weight": 1} for name in CRITERIA))
    outputs = [
        {"case_id": f"case-{place:02}", "model": f"the-model-with-the-long-name-{place % 2}"}
        for place in range(output_count)
    ]
    rng = np.random.default_rng(0)
    for run_id in RUNS:
        replies = {"judge": {name: rng.integers(0, 3, (output_count, 2)) / 2 for name in CRITERIA}}
        write_replicates(lake, run_id, rubric, outputs, replies)
    commit(lake, "ratings", lambda connection, _version: connection.execute(RATINGS))
    return folder


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def in_terminal(gradebook, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command with a stdout that says it is a terminal of 80 columns."""

    def call(*words: str) -> Any:
        monkeypatch.setenv("COLUMNS", str(COLUMNS))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(stdout, "is_wide", False)
        return gradebook(*words)

    return call


def lines_of(text: str) -> list[str]:
    return re.sub("\x1b\\[[0-9;]*m", "", text).splitlines()


def shows(line: str, name: str) -> bool:
    """Whether a line has a name, or its beginning and its end around an ellipsis."""
    cuts = [(name[:head], name[-tail:]) for head in range(8, len(name)) for tail in range(8, len(name) - head)]
    return name in line or any(f"{head}…{tail}" in line for head, tail in cuts)


SHOWN: dict[tuple[str, ...], tuple[str, ...]] = {  # a command, and what its tables name
    ("runs",): RUNS,
    ("status",): RUNS[1:],
    (
        "lake",
        "versions",
    ): (*RUNS, "verdicts +80"),
    ("compare", *RUNS): CRITERIA,
    (
        "compare",
        RUNS[0],
        "--model-a",
        "the-model-with-the-long-name-0",
        "--model-b",
        "the-model-with-the-long-name-1",
        "--unpaired",
    ): CRITERIA,
    ("judge", "noise", RUNS[0], "--fail-if", "mean_diff < -0.01 and p < 0.05", "--draws", "20"): CRITERIA,
    ("people", "agreement", RUNS[0]): CRITERIA,
    ("people", "agreement", RUNS[0], "--criterion", CRITERIA[0]): CRITERIA[:1],
    ("people", "raters", RUNS[0], "--pairs"): (),
    ("people", "calibrate", RUNS[0], "--rate-next", "2"): CRITERIA,
    ("cost",): (),
    ("lake", "rebuild", RUNS[0], "--check"): ("run_scores",),
    ("rubric", "list"): ("general_answer", "support_replies_of_the_night"),
    ("rubric", "checks", "list"): ("length_words",),
    ("rubric", "checks", "show", "length_words"): ("length_words",),
    ("people", "ratings", "list"): CRITERIA,
    ("people", "ratings", "show", "case-01"): CRITERIA,
    (
        "lake",
        "tables",
    ): ("run_scores",),
    ("lake", "tables", "run_scores"): ("gate_failure_rate",),
    ("why", RUNS[0], "case-00"): CRITERIA,
    ("doctor",): (),
    (
        "lake",
        "compact",
    ): (),
    ("suite", "power", "--sd", "0.3", "--effect", "0.02"): (),
    ("rubric", "diff", "general_answer", "json_record"): (),
    ("sql", "from run_scores order by all"): RUNS,
    ("sql", "from verdicts order by all"): (RUNS[0], CRITERIA[0]),
    ("sql", "select output_id, method, rationale, status, run_id, criterion_id from verdicts"): (*RUNS, *CRITERIA),
}
COMMANDS = list(SHOWN)
WIDEST = ("compare", *RUNS)


@pytest.mark.parametrize("words", [WIDEST, *matrix((words,) for words in COMMANDS if words != WIDEST)], ids=" ".join)
def test_no_line_is_longer_than_the_terminal_and_each_name_is_readable(in_terminal, lake, words):
    finished = in_terminal(*words)
    lines = lines_of(finished.out)
    assert finished.code in (0, 1), finished.err
    too_long = [line for line in lines if len(line) > COLUMNS and str(lake) not in line]
    assert [line for line in too_long if not line.startswith("  gradebook ")] == []  # a command is pasted as one line
    assert [name for name in SHOWN[words] if not any(shows(line, name) for line in lines)] == []
    assert [run for run in SHOWN[words] if run in RUNS and run not in finished.out] == []


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    "words",
    [
        (
            "people",
            "agreement",
        ),
        *matrix(
            [
                (
                    (
                        "people",
                        "calibrate",
                    ),
                ),
                (("judge", "noise", "--draws", "20"),),
            ]
        ),
    ],
    ids=" ".join,
)
def test_without_a_run_the_latest_is_meant(gradebook, words):
    unnamed, named = gradebook(*words, "--json"), gradebook(*words[:2], RUNS[1], *words[2:], "--json")
    assert (unnamed.code, unnamed.out) == (0, named.out)


@pytest.mark.usefixtures("lake")
def test_names_of_models_in_place_of_runs_get_the_command_that_compares_them(gradebook):
    models = [f"the-model-with-the-long-name-{place}" for place in (0, 1)]
    finished = gradebook("compare", *models)
    assert finished.code == 2
    command = f"gradebook compare {RUNS[1]} --model-a {models[0]} --model-b {models[1]}"
    assert f"found the models {models[0]} and {models[1]}, expected runs; for models: `{command}`" in finished.err
    assert f"found no '{models[0]}'" in gradebook("compare", models[0], "nonesuch").err


@pytest.mark.nightly
@pytest.mark.usefixtures("lake")
def test_wide_shows_all_columns_and_whole_names(in_terminal):
    narrow, wide = in_terminal("compare", *RUNS), in_terminal("compare", *RUNS, "--wide")
    assert "not shown: worse, tied, pairs, unscored, alone; --wide shows all" in narrow.out and "…" in narrow.out
    assert "alone" in wide.out and "--wide" not in wide.out and "…" not in wide.out


@pytest.mark.nightly
@pytest.mark.usefixtures("lake")
def test_a_pipe_has_no_width(gradebook):
    piped = gradebook("compare", *RUNS)
    assert CRITERIA[0] in piped.out and "alone" in piped.out and piped.err == ""


@pytest.mark.nightly
@pytest.mark.usefixtures("lake")
def test_what_is_asked_for_goes_to_stdout_alone(gradebook):
    found = [(words, finished.err) for words in SHOWN if (finished := gradebook(*words)).err or not finished.out]
    # a remark on what `versions` leaves out is no row of it
    assert found == [
        (
            (
                "lake",
                "versions",
            ),
            "not listed: 1 intermediate (--all)\n",
        )
    ]


# A count of one with a noun in the plural, or an interval in another form than `0.710 to 0.750`.
FAULTS = re.compile(
    r"(?<![\d.,:/-])1 (?:[a-z]+ )?(?:outputs|cases|runs|rows|pairs|ratings|raters|verdicts|judgments|"
    r"requests|criteria|models|versions|files|keys|replies|draws|suites)\b|\d\.\d+\.\.[-+$\d]|\w\(s\)"
)


NAMING = ("checks", "versions")  # their texts hold ranges of checks, and names of tables after a count of rows


@pytest.mark.nightly
def test_counts_and_intervals_have_one_form_and_answers_go_to_stdout_alone(gradebook, tmp_path):
    _made(tmp_path, 1)
    shown = {words: gradebook(*words) for words in SHOWN}
    answered = {words: finished for words, finished in shown.items() if finished.code == 0}
    assert len(answered) >= len(SHOWN) - 5  # one output is too few for some
    assert [words for words, finished in answered.items() if finished.err or not finished.out] == [
        (
            "lake",
            "versions",
        )
    ]
    texts = [finished.out + finished.err for words, finished in shown.items() if not {*words} & {*NAMING}]
    lines = [line for text in texts for line in text.splitlines() if "expected" not in line]
    faults = "\n".join(filter(FAULTS.search, lines))
    assert faults == ""


def test_no_line_of_any_command_s_help_is_longer_than_the_terminal(in_terminal):
    helps = {name: in_terminal(*name.split(), "--help").out for name in ("", *GROUPS, *ENTRIES)}
    assert [(name, line) for name, text in helps.items() for line in text.splitlines() if len(line) > COLUMNS] == []


def test_an_error_is_wrapped_between_words(in_terminal, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    path = f"/{'long' * 25}/outputs.jsonl"
    lines = in_terminal("evaluate", path, "--rubric", "no_such_rubric_of_that_name").err.splitlines()
    assert [line for line in lines if len(line) > COLUMNS and path not in line] == []
    assert "general_answer," in " ".join(lines).split()


@pytest.mark.usefixtures("lake")
def test_a_command_in_a_sentence_stays_in_one_line(in_terminal, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    models = [f"the-model-with-the-long-name-{place}" for place in (0, 1)]
    error = in_terminal("compare", *models).err.splitlines()
    assert f"`gradebook compare {RUNS[1]} --model-a {models[0]} --model-b {models[1]}`" in error


def test_the_reason_of_a_failed_run_is_shown_in_a_narrow_terminal(in_terminal, lake):
    failed = "select * replace ('broken' as run_id, 'failed' as status, 'the budget is used up' as reason) from runs"
    commit(
        find_lake(f"sqlite:{lake}/lake/catalog.sqlite"),
        "run broken failed",
        lambda connection, _version: connection.execute(f"insert into runs by name {failed} limit 1"),
    )
    assert "broken failed: the budget is used up" in lines_of(in_terminal("runs").out)


@pytest.mark.usefixtures("lake")
def test_a_fault_of_a_rubric_is_wrapped(in_terminal, tmp_path):
    with write_rubric(tmp_path / "rubric.yaml").open("a", encoding="utf-8") as file:
        file.write("targets: []\n")
    lines = lines_of(in_terminal("rubric", "lint", "rubric.yaml").out)
    assert "unknown-key" in lines[0] and [line for line in lines if len(line) > COLUMNS] == []


NIGHT = """
lake: sqlite:lake/catalog.sqlite
defaults: {outputs: step-2.jsonl}
suites:
  - {id: the_suite_with_the_name_that_says_all_of_it, rubric: rubric.yaml}
  - {id: the_suite_whose_rubric_was_never_written, rubric: none.yaml}
"""
EVALUATED: tuple[tuple[str, ...], ...] = (  # commands that run an evaluation, in an order in which each finds its data
    ("evaluate", "step-1.jsonl", "--rubric", "rubric.yaml", "--dry-run"),
    ("evaluate", "step-1.jsonl", "--rubric", "rubric.yaml", "--run-id", RUNS[0]),
    ("rubric", "reweigh", RUNS[0], "--rubric", "next.yaml"),
    ("suite", "nightly", "night.yaml"),
    (
        "suite",
        "checkpoints",
    ),
    (
        "suite",
        "sweep",
        ".",
        "--model",
        "a-model-with-a-name-that-fills-half-a-line",
        "--rubric",
        "rubric.yaml",
        "--list",
    ),
    ("review", "spoon.txt", "--rubrics", "rubric.yaml"),
    ("demo", "--lake", "sqlite:demo/catalog.sqlite"),
)


@pytest.mark.nightly
def test_what_an_evaluation_says_is_no_longer_than_the_terminal(in_terminal, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    rubric = RUBRIC.replace("id: clarity", f"id: {CRITERIA[0]}").replace("{{type: judge}}", "{{type: ratings}}")
    (tmp_path / "rubric.yaml").write_text(rubric.format(version="1.0.0", weight=1), encoding="utf-8")
    (tmp_path / "next.yaml").write_text(rubric.format(version="1.1.0", weight=2), encoding="utf-8")
    (tmp_path / "night.yaml").write_text(NIGHT, encoding="utf-8")
    (tmp_path / "spoon.txt").write_text("A spoon of olive wood.", encoding="utf-8")
    for step in (1, 2, 3):
        write_outputs(tmp_path / f"step-{step}.jsonl", models=("a-model-with-a-name-that-fills-half-a-line",))
    said = {words: in_terminal(*words) for words in EVALUATED}
    assert {words[0]: finished.code for words, finished in said.items() if finished.code not in (0, 1, 3)} == {}
    lines = [line for finished in said.values() for line in lines_of(finished.out + finished.err)]
    assert [line for line in lines if len(line) > COLUMNS and not is_copied(line, tmp_path)] == []


def is_copied(line: str, folder: Path) -> bool:
    """Whether a line is a command or holds a path: these are never wrapped, so that a click copies them whole."""
    return str(folder) in line or line.lstrip().startswith("gradebook ")
