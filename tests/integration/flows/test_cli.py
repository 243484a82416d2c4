"""The command `gradebook`: imports, help, plans and tables."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.nightly import matrix
from tests.support.samples import write_outputs, write_rubric
from tests.support.scored_lake import make_lake

ROOT = Path(__file__).parents[3]
SLOW_TO_IMPORT = ("prefect", "great_expectations", "pandas", "openai")


@pytest.fixture
def inputs(tmp_path):
    return write_outputs(tmp_path / "outputs.jsonl"), write_rubric(tmp_path / "rubric.yaml")


def modules_after(*words: str) -> set[str]:
    code = f"""
import sys
sys.argv = {["gradebook", *words]!r}
from gradebook.flows.cli import main
try:
    main()
finally:
    print("\\n".join(sys.modules), file=sys.stderr)
"""
    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    modules = set(finished.stderr.splitlines())
    assert "gradebook.flows.cli" in modules, finished.stderr
    return modules


@pytest.mark.parametrize(
    "words", [*matrix([(("--help",),)]), ("evaluate", "--help"), *matrix([(("sql", "select 1"),), (("runs",),)])]
)
def test_quick_commands_import_nothing_slow(words):
    assert not modules_after(*words).intersection(SLOW_TO_IMPORT)


@pytest.mark.parametrize(
    ("words", "loaded"), [(("--help",), set()), (("--version",), set()), (("suite", "power", "--help"), {"power"})]
)
def test_only_the_module_of_the_chosen_command_is_imported(words, loaded):
    room = "gradebook.flows.commands."
    found = {name.removeprefix(room) for name in modules_after(*words) if name.startswith(room)}
    assert found - {"options"} == loaded


def test_a_query_that_ctrl_c_ended_is_told_in_a_sentence(tmp_path):
    code = """
import sys
from gradebook.flows.commands import runs
from gradebook.flows import entry

def interrupted(*_):
    raise RuntimeError("Query interrupted")  # as DuckDB says it

runs.list_runs_with_verdicts = interrupted
sys.argv = ["gradebook", "runs"]
entry.main()
"""
    finished = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    told = "gradebook: interrupted; run the same command again to resume\n"
    assert (finished.returncode, finished.stderr) == (3, told)


def test_ctrl_c_during_the_first_imports_is_told_in_a_sentence(tmp_path):
    code = """
import sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "gradebook.flows.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
from gradebook.flows.entry import main
main()
"""
    finished = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    told = "gradebook: interrupted; run the same command again to resume\n"
    assert (finished.returncode, finished.stderr) == (3, told)


def test_the_version_is_that_of_the_package(gradebook):
    finished = gradebook("--version")
    assert (finished.code, finished.out) == (0, f"gradebook {metadata.version('gradebook')}\n")


def test_a_missing_argument_is_named_with_what_it_is(gradebook):
    finished = gradebook("rubric", "reweigh", "--rubric", "rubric.yaml")
    assert (finished.code, finished.out) == (2, "")
    assert finished.err.startswith("gradebook: RUN: found none, expected id of the published run with the verdicts;")


@pytest.mark.parametrize("form", ["csv", *matrix(["json"])])
def test_a_reader_that_closes_the_pipe_early_is_no_failure(tmp_path, form):
    lake = make_lake(tmp_path)
    query = f"{sys.executable} -m gradebook sql 'from range(100000)' --format {form} --lake sqlite:{lake.address}"
    finished = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{query} | head -1"], cwd=ROOT, capture_output=True, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("evalute",), "COMMAND: found 'evalute', expected evaluate; `gradebook --help` lists"),
        (("ui",), "COMMAND: found 'ui', expected view; "),
        (("nonesuch",), "COMMAND: found 'nonesuch', expected one that the help lists; "),
        (("evaluate", "--provider", "x"), "evaluate: found the unknown option --provider, expected --judge; "),
        (("suite", "power", "--diff", "0.1"), "suite power: found the unknown option --diff, expected --effect; "),
        (("train", "best", "-k", "3"), "train best: found the unknown option -k, expected --k; "),
        (("report", "a", "b"), "report: found also b, expected one run, and --against for another; "),
        (("train", "pairs"), "COMMAND: found 'pairs', expected rewards --pairs; "),
        (("judge", "anchors", "nonesuch"), "COMMAND: found 'nonesuch', expected one of make, ask, list; "),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_misspelled_word_or_one_of_another_tool_gets_a_suggestion(gradebook, words, answer):
    finished = gradebook(*words)
    assert (finished.code, finished.out) == (2, "")
    assert answer in finished.err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gradebook ev", ["evaluate"]),
        *matrix(
            [
                ("gradebook rubric checks s", ["show"]),
                ("gradebook evaluate --bud", ["--budget-usd"]),
                ("gradebook rubric checks show json_v", ["json_valid"]),
            ]
        ),
    ],
)
def test_a_shell_completes_commands_options_and_names(line, expected):
    asked = {"_GRADEBOOK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    command = [sys.executable, "-m", "gradebook"]
    finished = subprocess.run(
        command, cwd=ROOT, env=os.environ | asked, capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.stdout.split() == expected, finished.stderr


def test_completion_can_be_installed(gradebook):
    assert "--install-completion" in gradebook("--help").out


@pytest.mark.parametrize("command", ["demo", "evaluate", "runs", "sql", "report"])
def test_each_command_has_help(gradebook, command):
    finished = gradebook(command, "--help")
    assert finished.code == 0
    assert "Usage: gradebook" in finished.out
    assert command in gradebook("--help").out


def test_a_dry_run_prints_the_plan_and_leaves_nothing(gradebook, inputs, tmp_path):
    outputs, rubric = inputs
    finished = gradebook("evaluate", outputs, "--rubric", rubric, "--judge", "gpt-4o-mini", "--dry-run", "--json")
    plan = finished.json
    assert (plan["output_count"], plan["request_count"]) == (12, 12)
    assert plan["cost_usd"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outputs.jsonl", "rubric.yaml"]


def test_a_dry_run_reports_an_unknown_price(gradebook, inputs):
    outputs, rubric = inputs
    finished = gradebook("evaluate", outputs, "--rubric", rubric, "--judge", "no-such-model", "--dry-run")
    assert finished.code == 0
    assert "12 requests, about unknown" in finished.out


@pytest.mark.nightly
@pytest.mark.slow
def test_the_demo_shows_tables_questions_and_its_report(gradebook, tmp_path):
    finished = gradebook("demo")
    assert finished.code == 0, finished.err
    assert finished.out.count("select") >= 3
    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0].splitlines()
    assert [line for line in shown if line not in ("...", *map(str.rstrip, finished.out.splitlines()))] == []
    report = Path(finished.out.split("report: ")[1].splitlines()[0])
    rows = gradebook(
        "sql", "select mean from run_scores", "--lake", "sqlite:demo-lake/catalog.sqlite", "--format", "json"
    )
    assert all(f"{row['mean']:.3f}" in report.read_text() for row in json.loads(rows.out))


@pytest.mark.nightly
def test_runs_and_report_read_what_was_published(judged_run, gradebook, tmp_path):
    published = judged_run
    (run,) = gradebook("runs", "--json").json["runs"]
    assert (run["run_id"], run["version"]) == (published["run_id"], published["version"])
    assert gradebook("report", "--out", "page.html").out.strip() == "page.html"
    assert published["run_id"] in (tmp_path / "page.html").read_text()


def test_sql_writes_the_same_rows_in_every_format(judged_run, gradebook, tmp_path):
    query = "select model, output_count from run_scores order by model"
    rows = [{"model": "large", "output_count": 6}, {"model": "small", "output_count": 6}]
    assert json.loads(gradebook("sql", query, "--format", "json").out) == rows
    assert gradebook("sql", query, "--format", "csv").out.splitlines() == ["model,output_count", "large,6", "small,6"]
    gradebook("sql", query, "--format", "parquet", "--out", "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == rows
    assert "large" in gradebook("sql", query).out


@pytest.mark.nightly
def test_changes_of_the_input_are_noted(evaluate, inputs):
    outputs, rubric = inputs
    lines = outputs.read_text().splitlines()
    row = json.loads(lines[0]) | {"colour": "red", "output": "Another answer here."}
    outputs.write_text("\n".join([*lines, lines[0], json.dumps(row), '{"case_id": "x"}']))
    notes = evaluate(outputs, "--rubric", rubric, "--max-bad-rate", "0.5").json["notes"]
    assert notes == [
        "1 case id with several outputs of one model and sample_index, such as c0: number them",
        "1 of 15 rows refused: see the table quarantine",
        "1 repeated row stored once",
        "unknown columns are stored in metadata: colour",
        "cases have 1 to 2 outputs of a model: means and rates count each case once (`weights: cases` of the rubric)",
        "no --judge: clarity unscored",
    ]
