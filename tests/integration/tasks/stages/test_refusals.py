"""A dry run refuses everything that the evaluation refuses before its first request, with the same message."""

import ast
import fcntl
import json
import os
import shutil
import sqlite3
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run
from gradebook.tasks.stages.preview import preview_run
from gradebook.tasks.stages.submit import Stages
from tests.support.law_over import law_over
from tests.support.published_runs import publish
from tests.support.samples import RUBRIC, write_lines, write_outputs, write_rubric

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
SOON = NOW + timedelta(hours=1)
LAKE = "sqlite:lake/catalog.sqlite"
CHECK = "  - {id: length, description: Short., method: {type: check, check: length_words, settings: {max: 9}}}\n"
CHECKED = "id: checked\nversion: 1.0.0\ncriteria:\n" + CHECK
FUNCTION = (
    "id: f\nversion: 1.0.0\ncriteria:\n  - {id: own, description: Own., method: {type: function, function: NAME}}\n"
)
PREFERRED = RUBRIC.format(version="3.0.0", weight=1).replace("{type: judge}", "{type: judge, prefer: human}")
RATED = PREFERRED.replace("{type: judge, prefer: human}", "{type: ratings}").replace("3.0.0", "4.0.0")
HEAD = "case_id,model,criterion_id,rater,level_id\n"
RATING = HEAD + "c1,small,clarity,anna,clear\n"
TWO_SAMPLES = [
    {"case_id": "c1", "model": "small", "output": f"Answer {index}.", "sample_index": index} for index in (0, 1)
]
BATCH = "model: m\nmode: batch\n"
REPLY = {"case_id": "c1", "model": "small", "criterion_id": "clarity", "level": "clear"}


@dataclass(frozen=True)
class Case:
    """Request, its files, and words of the refusal."""

    words: str
    asked: dict[str, Any]
    files: Mapping[str, str | bytes] | None = None
    environment: dict[str, str] | None = None
    is_lake_there: bool = False  # with the published run `base`: two models by `short_answer` 1.0.0
    prepare: Callable[[ExitStack], None] | None = None


Given = tuple[dict[str, Any], dict[str, str | bytes]]


def judged(judge: str, **asked: Any) -> Given:
    """Case with a judge file."""
    return {"judge": "judge.yaml"} | asked, {"judge.yaml": judge}


def ratings(text: str | bytes, rubric: str = PREFERRED) -> Given:
    """Case with a file of ratings."""
    return {"ratings": "ratings.csv", "rubric": "r.yaml"}, {"ratings.csv": text, "r.yaml": rubric}


def write_other_models(_stack: ExitStack) -> None:
    write_outputs(Path("outputs.jsonl"), models=("b1", "b2"))


def write_two_samples(_stack: ExitStack) -> None:
    write_lines(Path("outputs.jsonl"), TWO_SAMPLES)


def write_file_of_a_model(_stack: ExitStack) -> None:
    Path("org").mkdir()
    Path("org/m").write_text("model: m\n", encoding="utf-8")


def link_out(_stack: ExitStack) -> None:
    Path("linked").mkdir()
    Path("linked/private.jsonl").symlink_to("../outputs.jsonl")


def hold_run(stack: ExitStack) -> None:
    """Lock a run as its process does."""
    Path("lake/runs/held").mkdir(parents=True)
    held = os.open("lake/runs/held/lock", os.O_WRONLY | os.O_CREAT)
    stack.callback(os.close, held)
    fcntl.flock(held, fcntl.LOCK_EX)


def begin_other_run(_stack: ExitStack) -> None:
    Path("lake/runs/other").mkdir(parents=True)
    identity = {"run_id": "other", "fingerprint": "another", "created_at": NOW.isoformat()}
    Path("lake/runs/other/run.json").write_text(json.dumps(identity))


def tear_run(_stack: ExitStack) -> None:
    Path("lake/runs/torn").mkdir(parents=True)
    Path("lake/runs/torn/run.json").write_text("{")


def forget_runs(_stack: ExitStack) -> None:
    """Simulate another machine: the run is in the lake, but has no folder here."""
    shutil.rmtree("lake/runs")


def forget_runs_and_change_outputs(stack: ExitStack) -> None:
    forget_runs(stack)
    write_outputs(Path("outputs.jsonl"), count=7)


def fail_base(_stack: ExitStack) -> None:
    update_lake("update runs set status = 'failed' where run_id = 'base'")


def lose_rubric(_stack: ExitStack) -> None:
    update_lake("delete from rubrics")


def break_rubric(_stack: ExitStack) -> None:
    update_lake("""update rubrics set body = '{"id": "short_answer"}'""")


def lose_pointer(_stack: ExitStack) -> None:
    update_lake("delete from rubric_pointers")


def make_draft(_stack: ExitStack) -> None:
    update_lake("insert into rubric_states values ('short_answer', '1.0.0', 'draft', '2026-11-20')")


def name_file_in_lake(_stack: ExitStack) -> None:
    method = '{"type":"check","check":"length_tokens","settings":{"max":9,"tokenizer":"tok.json"}}'
    body = f'{{"id":"short_answer","version":"1.0.0","criteria":[{{"id":"a","description":"A?","method":{method}}}]}}'
    update_lake(f"update rubrics set body = '{body}'")


def update_lake(query: str) -> None:
    commit(find_lake(LAKE), "a test's own", lambda connection, _version: connection.execute(query))


def make_other_database(_stack: ExitStack) -> None:
    with closing(sqlite3.connect("other.sqlite")) as other:
        other.execute("create table notes (words text)")


def make_folder(name: str) -> Callable[[ExitStack], None]:
    return lambda _stack: Path(name).mkdir()


CASES = {
    # -------- values
    "embedder without similarity": Case("--embedder: found no criterion of the method", {"embedder": "m"}),
    "strata without a sample": Case("--stratify: found no --sample", {"stratify": "topic"}),
    "empty judge": Case("--judge: found an empty text", {"judge": " "}),
    "empty ratings": Case("--ratings: found an empty text", {"ratings": ""}),
    "empty record": Case("--record: found an empty text", {"record": ""}),
    "empty baseline": Case("--baseline: found an empty text", {"baseline": ""}),
    "empty rule": Case("--fail-if: found an empty text", {"fail_if": ""}),
    "feedback": Case("--feedback: found 'gpt'", {"feedback": "gpt"}),
    "bad rate": Case("--max-bad-rate: found 1.5", {"max_bad_rate": 1.5}),
    "budget": Case("--budget-usd: found -1", {"budget_usd": -1.0}),
    "endless budget": Case("--budget-usd: found inf", {"budget_usd": float("inf")}),
    "run id": Case("--run-id: found 'a/b'", {"run_id": "a/b"}),
    "run id of no run": Case("--run-id: found 'Null'", {"run_id": "Null"}),
    "runner": Case("--runner: found 'spark'", {"runner": "spark"}),
    "cluster elsewhere": Case(
        "which workers on other machines can't reach",
        {"runner": "dask:tcp://192.0.2.1:8786", "rubric": "c.yaml"},
        {"c.yaml": CHECKED},
    ),
    # -------- the lake
    "lake address": Case("--lake: found 'mysql:x'", {"lake": "mysql:x"}),
    "password": Case("found a password in the connection string", {"lake": "postgres:password=x", "data": "d"}),
    "no data folder": Case("--data: found none", {"lake": "postgres:dbname=x"}),
    "no working folder": Case(
        "GRADEBOOK_WORK: found none",
        {"lake": "postgres:dbname=x", "data": "s3://a-bucket/x"},
        environment={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "GRADEBOOK_WORK": ""},
    ),
    "question mark": Case("found a ? on the way", {"lake": "sqlite:a?b/catalog.sqlite"}),
    "backslash": Case("found a \\ on the way", {"lake": "sqlite:a\\b/catalog.sqlite"}),
    "partition": Case("found a folder named 'a=b' on the way", {"lake": "sqlite:a=b/catalog.sqlite"}),
    "no storage key": Case(
        "found no AWS_ACCESS_KEY_ID",
        {"data": "s3://a-bucket/x"},
        environment={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
    ),
    "other database": Case(
        "found a database of something else",
        {"lake": "sqlite:other.sqlite"},
        prepare=make_other_database,
    ),
    "no database": Case("the lake can't be opened", {"lake": "sqlite:outputs.jsonl"}),
    "file for a folder": Case("can't make the lake's folder: Not a dir", {"lake": "sqlite:outputs.jsonl/l/c.sqlite"}),
    "file for the lake's folder": Case(
        "can't make the lake's folder: File exists", {"lake": "sqlite:l/c.sqlite", "data": "outputs.jsonl"}
    ),
    # -------- the rubric
    "no rubric": Case("found no such file and no shipped rubric", {"rubric": "none.yaml"}),
    "broken rubric": Case("r.yaml", {"rubric": "r.yaml"}, {"r.yaml": "id: x\n"}),
    "unknown version": Case("found no version of it in", {"rubric": "other@1.0.0"}),
    "other version": Case("found the version '9.9.9'", {"rubric": "short_answer@9.9.9"}, is_lake_there=True),
    "file of a lake's rubric": Case(
        "a: found the file that its setting tokenizer names, expected the rubric's file",
        {"rubric": "short_answer"},
        is_lake_there=True,
        prepare=name_file_in_lake,
    ),
    "draft": Case(
        "found short_answer 1.0.0, which is a draft",
        {"rubric": "short_answer@1.0.0", "trigger": "nightly"},
        is_lake_there=True,
        prepare=make_draft,
    ),
    "no pointer": Case("found no latest version", {"rubric": "short_answer"}, is_lake_there=True, prepare=lose_pointer),
    "changed rubric": Case(
        "found another text than the 1.0.0 that runs used or that was registered",
        {"rubric": "r.yaml"},
        {"r.yaml": RUBRIC.format(version="1.0.0", weight=3)},
        is_lake_there=True,
    ),
    "no criteria": Case("found no row with criteria of its own", {"rubric": "none"}),
    # -------- functions
    "function not allowed": Case(
        "whose package is not allowed", {"rubric": "f.yaml"}, {"f.yaml": FUNCTION.replace("NAME", "json:loads")}
    ),
    "function not there": Case(
        "own: the function json.none:loads",
        {"rubric": "f.yaml", "allow_functions": ("json",)},
        {"f.yaml": FUNCTION.replace("NAME", "json.none:loads")},
    ),
    "no package": Case("--allow-functions: found '1'", {"allow_functions": ("1",)}),
    "unknown setting": Case("gradebook.toml:2", {}, {"gradebook.toml": "[functions]\nallowed = []\n"}),
    "no TOML": Case("gradebook.toml:1: found no TOML", {}, {"gradebook.toml": "[functions\n"}),
    "settings not UTF-8": Case("gradebook.toml: can't be read", {}, {"gradebook.toml": b"\xff"}),
    # -------- the outputs
    "no outputs": Case("found a path that is not there", {"outputs": "none.jsonl"}),
    "no match": Case("found a glob that matches no file", {"outputs": "*.csv"}),
    "unknown suffix": Case("found the suffix .txt", {"outputs": "o.txt"}, {"o.txt": "x"}),
    "link out of a folder": Case("found a link out of the folder", {"outputs": "linked"}, prepare=link_out),
    "empty folder": Case("found a folder without outputs", {"outputs": "empty"}, prepare=make_folder("empty")),
    "no rows": Case("found no rows", {"outputs": "o.jsonl"}, {"o.jsonl": ""}),
    "no column": Case("expected model", {"outputs": "o.csv"}, {"o.csv": "case_id,output\nc,o\n"}),
    "unknown column of the map": Case("--map", {"column_map": {"answer": "output"}}),
    "column not there": Case("expected", {"column_map": {"output": "reply"}}),
    "too many bad rows": Case(
        "o.jsonl", {"outputs": "o.jsonl"}, {"o.jsonl": '{"case_id": "c", "model": "m", "output": 5}\n'}
    ),
    "not UTF-8": Case("found the byte 0xe9", {"outputs": "o.jsonl"}, {"o.jsonl": b'{"output": "\xe9"}\n'}),
    # -------- ratings
    "no ratings file": Case("found no such file, expected a file of ratings", {"ratings": "none.csv"}),
    "ratings suffix": Case("found the suffix .txt", {"ratings": "none.txt"}),
    "no ratings": Case("found no ratings", *ratings(HEAD)),
    "ratings columns": Case("expected rater among them", *ratings("case_id,model,criterion_id\nc1,small,clarity\n")),
    "rated level": Case("level_id: found 'good'", *ratings(HEAD + "c1,small,clarity,anna,good\n")),
    "rated criterion": Case("criterion_id: found 'tone'", *ratings(HEAD + "c1,small,tone,anna,good\n")),
    "ratings not UTF-8": Case("ratings.csv:2: found the byte", *ratings(HEAD.encode() + b"\xff,,,,\n")),
    "ambiguous rating, preferred": Case("c1 of small: found 2 outputs", *ratings(RATING), prepare=write_two_samples),
    "ambiguous rating": Case("c1 of small: found 2 outputs", *ratings(RATING, RATED), prepare=write_two_samples),
    "ambiguous rating, unused": Case(
        "c1 of small: found 2 outputs",
        *ratings(RATING, RUBRIC.format(version="1.0.0", weight=1)),
        prepare=write_two_samples,
    ),
    # -------- the judge
    "no judge file": Case("judge.yaml: can't be read", {"judge": "judge.yaml"}),
    "judge no YAML": Case("judge.yaml: found no YAML", *judged("[")),
    "judge a list": Case("judge.yaml: found list", *judged("[]")),
    "judge too long": Case("judge.yaml: found 100,001 characters", *judged("#" * 100_001)),
    "alias": Case("found the alias *a", *judged("model: &a m\nname: *a\n")),
    "unknown setting of a judge": Case("judge.yaml: temp: found an unknown setting", *judged("model: m\ntemp: 1\n")),
    "key in a judge file": Case("expected env:VARIABLE, secret:BLOCK", *judged("model: m\nkey: sk-x\n")),
    "address": Case("OPENAI_BASE_URL", {"judge": "m"}, environment={"OPENAI_BASE_URL": "ftp://x"}),
    "no host": Case("found no host name", {"judge": "m"}, environment={"OPENAI_BASE_URL": "http://a..b/v1"}),
    "bad key": Case("characters that a key can't have", {"judge": "m"}, environment={"OPENAI_API_KEY": "ké"}),
    "key that nobody allowed": Case(
        'expected GRADEBOOK_ALLOW_KEYS="MINE@example.com"',
        *judged("model: m\nbase_url: https://example.com/v1\nkey: env:MINE\n"),
    ),
    "program that nobody allowed": Case(
        "expected the same line in GRADEBOOK_ALLOW_PROGRAMS", *judged("model: m\nbatch_command: run {in} {out}\n")
    ),
    "program for a key that nobody allowed": Case(
        "expected the same line in GRADEBOOK_ALLOW_PROGRAMS", *judged("model: m\nkey: command:print-token\n")
    ),
    "header that nobody allowed": Case(
        "headers: found MINE for http://127.0.0.1:9/v1, a pair that nobody allowed",
        *judged("model: m\nheaders: {X-Mine: '${MINE}'}\n"),
    ),
    "header without a value": Case(
        "headers: found nothing in MINE",
        *judged("model: m\nheaders: {X-Mine: '${MINE}'}\n"),
        environment={"GRADEBOOK_ALLOW_KEYS": "MINE@127.0.0.1:9"},
    ),
    "file without a suffix": Case("found a file of this name", {"judge": "org/m"}, prepare=write_file_of_a_model),
    "panel's file elsewhere": Case("expected a path below the panel's folder", *judged("panel: [a, ../b.yaml]\n")),
    "panel": Case("found an unknown setting, expected panel", *judged("panel: [a, b]\nmode: batch\n")),
    "same judge twice": Case("found the same judge twice", *judged("panel: [a, a]\n")),
    "panel in a panel": Case(
        "expected a single judge",
        {"judge": "judge.yaml"},
        {"judge.yaml": "panel: [a, b.yaml]\n", "b.yaml": "panel: [c, d]\n"},
    ),
    "batch in a panel": Case(
        "found batch in a panel",
        {"judge": "judge.yaml"},
        {"judge.yaml": "panel: [a, b.yaml]\n", "b.yaml": "model: m\nmode: batch\n"},
    ),
    "cascade of an unknown criterion": Case(
        "cascade.when.criteria: found 'tone'",
        *judged("cascade: {first: a, then: b, when: {criteria: [tone]}}\n"),
    ),
    "batches of several criteria": Case("packing: found 2", *judged("model: m\nmode: batch\npacking: 2\n")),
    "deadline without batches": Case(
        "--deadline: found no judge", {"judge": "m", "deadline": NOW + timedelta(hours=1)}
    ),
    "budget without a price": Case("no-such-model", {"judge": "no-such-model", "budget_usd": 1.0}),
    "feedback without a judge": Case("--feedback llm: found no --judge", {"feedback": "llm"}),
    "no recording": Case("expected a file of recorded replies", {"judge": "replay:none.jsonl"}),
    "broken recording": Case("replies.jsonl:1", {"judge": "replay:replies.jsonl"}, {"replies.jsonl": "{}\n"}),
    "level of a recording": Case(
        "replies.jsonl:1",
        {"judge": "replay:replies.jsonl"},
        {"replies.jsonl": json.dumps(REPLY | {"level": "good"}) + "\n"},
    ),
    # -------- the recording to write
    "record without a judge": Case("--record: found no --judge", {"record": "r.jsonl"}),
    "record of a panel": Case("expected a single judge", *judged("panel: [a, b]\n", record="r.jsonl")),
    "record over the judge": Case(
        "which --judge reads",
        {"judge": "replay:r.jsonl", "record": "r.jsonl"},
        {"r.jsonl": json.dumps(REPLY) + "\n"},
    ),
    "record below a file": Case("--record: ", {"judge": "m", "record": "outputs.jsonl/r.jsonl"}),
    "record over a folder": Case("which is no file", {"judge": "m", "record": "empty"}, prepare=make_folder("empty")),
    "record over another file": Case("expected a recording or a new file", {"judge": "m", "record": "outputs.jsonl"}),
    # -------- the baseline
    "rule without a baseline": Case("--fail-if: found no --baseline", {"fail_if": "mean_diff < 0"}),
    "no rule": Case("--fail-if", {"baseline": "latest", "fail_if": "mean_diff <"}),
    "rule of an unknown criterion": Case(
        "--fail-if", {"baseline": "base", "fail_if": "criterion:none.mean_diff < 0"}, is_lake_there=True
    ),
    "baseline itself": Case("which --run-id names too", {"baseline": "a", "run_id": "a"}),
    "no lake of the baseline": Case("found no lake there", {"baseline": "base"}),
    "no pinned baseline": Case("and none of", {"baseline": "reference"}, is_lake_there=True),
    "no baseline": Case("--baseline: found no 'none'", {"baseline": "none"}, is_lake_there=True),
    "failed baseline": Case(
        "base is failed",
        {"baseline": "base", "rubric": "checked.yaml"},
        {"checked.yaml": CHECKED},
        None,
        True,
        fail_base,
    ),
    "baseline without a rubric": Case(
        "--baseline: found no rubric short_answer 1.0.0", {"baseline": "base"}, is_lake_there=True, prepare=lose_rubric
    ),
    "baseline with a broken rubric": Case(
        "the rubric of base can't be read",
        {"baseline": "base", "rubric": "c.yaml"},
        {"c.yaml": CHECKED},
        is_lake_there=True,
        prepare=break_rubric,
    ),
    "unpaired baseline": Case(
        "--baseline: found the models large, small and b1, b2",
        {"baseline": "base"},
        is_lake_there=True,
        prepare=write_other_models,
    ),
    # -------- sequential stopping
    "rule that stops nothing": Case("--stop: found 'soon', expected looks=N", {"stop": "soon", "baseline": "latest"}),
    "stop without a baseline": Case("--stop: found no --baseline", {"stop": "suite"}),
    "stop of a sample by stratum": Case(
        "--stop: found --stratify beside it",
        {"stop": "always", "baseline": "latest", "sample": 1, "stratify": "model"},
    ),
    "stop of batches": Case("found a judge with `mode: batch`", *judged(BATCH, stop="suite", baseline="latest")),
    "stop by the suite at a gate": Case(
        "--stop: found suite with a gate", {"stop": "suite", "baseline": "latest", "require": "not_worse_by(0.1)"}
    ),
    "stop by scores that hang on the baseline": Case(
        "--stop: found better, which compares outputs with those of the baseline",
        {"stop": "always", "baseline": "base", "rubric": "c.yaml", "judge": "m"},
        {
            "c.yaml": "id: short_answer\nversion: 2.0.0\ncriteria:\n  - {id: better, description: Better?, "
            "method: {type: preference, against: baseline}}\n"
        },
        is_lake_there=True,
    ),
    "stop by a baseline of another rubric": Case(
        "--stop: found base of another rubric",
        {"stop": "always", "baseline": "base", "rubric": "c.yaml", "judge": "m"},
        {"c.yaml": RUBRIC.format(version="2.0.0", weight=1)},
        is_lake_there=True,
    ),
    "stop by a baseline without scores": Case(
        "--stop: found no case in common with base that it has a score of",
        {"stop": "always", "baseline": "base", "judge": "m", "across_judges": True},
        is_lake_there=True,
    ),
    # -------- the run
    "run at work": Case("which another process is evaluating now", {"run_id": "held"}, prepare=hold_run),
    "run of others": Case("which evaluated other outputs", {"run_id": "other"}, prepare=begin_other_run),
    "torn run": Case("found no fingerprint and time of a run", {"run_id": "torn"}, prepare=tear_run),
    "published otherwise": Case(
        "which published other outputs", {"run_id": "base"}, is_lake_there=True, prepare=forget_runs_and_change_outputs
    ),
    "published without the baseline": Case(
        "base is published without it",
        {"run_id": "base", "baseline": "latest"},
        is_lake_there=True,
        prepare=forget_runs,
    ),
}


@dataclass(frozen=True)
class Refused:
    """Errors of a dry run and an evaluation of one request, where they were raised, and files left by the dry run."""

    planned: str
    evaluated: str
    places: frozenset[tuple[str, str]]
    left: frozenset[str]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lake with the run `base` of two models, and its files."""
    folder = tmp_path_factory.mktemp("base")
    publish(write_outputs(folder / "outputs.jsonl"), write_rubric(folder / "rubric.yaml"), run_id="base")
    return folder


@pytest.fixture(scope="module")
def refused(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Refused]:
    """Outcome of each case."""
    return {name: refuse(case, base, tmp_path_factory.mktemp("case")) for name, case in CASES.items()}


def refuse(case: Case, base: Path, folder: Path) -> Refused:
    with pytest.MonkeyPatch.context() as patched, ExitStack() as stack:
        patched.chdir(folder)
        patched.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        patched.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
        for name, value in (case.environment or {}).items():
            patched.setenv(name, value)
        write_outputs(Path("outputs.jsonl"))
        write_rubric(Path("rubric.yaml"))
        if case.is_lake_there:
            shutil.copytree(base / "lake", "lake")
        for name, content in (case.files or {}).items():
            Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        if case.prepare is not None:
            case.prepare(stack)
        request = EvaluationRequest(**{"outputs": "outputs.jsonl", "rubric": "rubric.yaml", "lake": LAKE} | case.asked)
        before = {*files_in(folder)}
        planned = ending_of(lambda: preview_run(request))
        left = {*files_in(folder)} - before
        evaluated = ending_of(lambda: evaluate(request))
    return Refused(planned[0], evaluated[0], frozenset({planned[1], evaluated[1]}), frozenset(left))


def evaluate(request: EvaluationRequest) -> None:
    with opened_run(request, NOW) as run:
        complete_run(run, Stages())


def ending_of(act: Callable[[], object]) -> tuple[str, tuple[str, str]]:
    """Type and message of the error that an action raises, and the function that raised it."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - unexpected errors are shown as a difference
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        return f"{type(error).__name__}: {error}", (frame.f_globals["__name__"], frame.f_code.co_name)
    return "not refused", ("", "")


def files_in(folder: Path) -> Iterator[str]:
    yield from (str(path.relative_to(folder)) for path in folder.rglob("*"))


@law_over("name", CASES)
def test_a_dry_run_refuses_what_the_evaluation_refuses_with_the_same_words(refused: dict[str, Refused], name: str):
    assert CASES[name].words in refused[name].evaluated
    assert refused[name].planned == refused[name].evaluated


def test_a_dry_run_that_is_refused_leaves_nothing(refused: dict[str, Refused]):
    assert {name: ending.left for name, ending in refused.items() if ending.left} == {}


# -------- no refusal without a case
MODULES = (
    "comparing.baseline",
    "comparing.sides",
    "datasets.case_criteria",
    "datasets.discovery",
    "datasets.ingest",
    "judging.prices",
    "judging.replies.recorded_judge",
    "judging.settings.files",
    "judging.settings.keys",
    "lake.address",
    "lake.rows",
    "ledger.recordings",
    "methods.function",
    "ratings.evaluation_file",
    "ratings.run_ratings",
    "rubric_store.versions",
    "runs.function_settings",
    "runs.request",
    "runs.runner",
    "stages.check_request",
    "stages.open_run",
    "stages.run_stages",
    "workspace.lock",
)
ELSEWHERE = {
    "comparing.baseline.body": "gradebook suite reference",
    "comparing.baseline.clear_reference": "gradebook suite reference",
    "comparing.baseline.pin_reference": "gradebook suite reference",
    "comparing.sides.refuse_judges": "gradebook compare",
    "comparing.sides._full_name": "gradebook compare",
    "comparing.sides.resolve_run_pair": "gradebook compare",
    "comparing.sides.pair_groups": "raised again by refuse_unpaired",
    "datasets.discovery._known_encoding": "refused by dataset_files before",
    "datasets.ingest.refuse_bad_rows": "before Prefect starts; raised again by refuse_no_criteria",
    "datasets.discovery.digest_files": "a file that goes away, or that the user may not read",
    "judging.replies.recorded_judge._answer": "a recorded level of a row's own criterion: known when it is asked",
    "judging.replies.recorded_judge._read_lines": "a file that goes away",
    "judging.replies.recorded_judge.check_recording": "raised again by refuse_record",
    "judging.settings.files.read_endpoint": "gradebook collect",
    "judging.settings.keys._run_token_program": "a program that a dry run does not run",
    **dict.fromkeys(
        (
            f"methods.function.{name}"
            for name in ("_answer", "_receive", "_reply", "_send", "_without_fault", "call", "find")
        ),
        "in the function's process, or between the two: a verdict without a score",
    ),
    "rubric_store.versions._refuse_faults": "gradebook.load_rubric",
    "rubric_store.versions.load_rubric": "gradebook.load_rubric",
    "rubric_store.versions.activate_draft": "gradebook view --edit",
    "rubric_store.versions.refuse": "gradebook view --edit",
    "rubric_store.versions.register_draft": "gradebook view --edit",
    "runs.request.read_deadline": "raised again by the request, which names the option",
    "rubric_store.versions.body": "gradebook rubric",
    "runs.request.read_column_map": "read by the command, before it knows of a dry run",
    "rubric_store.versions.delete_pointer": "gradebook rubric",
    "workspace.lock.created_at": "a run's folder that is damaged between its plan and its end",
    "workspace.lock._try_claim": "a folder that the user may not write",
    "workspace.lock.lock_folder": "gradebook doctor",
}
OF_READERS = {"ValueError", "TypeError", "RecursionError", "RuntimeError", "FunctionFault", "UnfinishedError"}


def raising_functions(module: str) -> Iterator[tuple[str, str]]:
    """Functions of a module that raise one of gradebook's errors."""
    source = Path(str(import_module(module).__file__)).read_text(encoding="utf-8")
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            raised = (node.exc for node in ast.walk(function) if isinstance(node, ast.Raise))
            names = {ast.unparse(error.func) for error in raised if isinstance(error, ast.Call)}
            if names - OF_READERS:
                yield module, function.name


def test_every_function_that_refuses_has_a_case(refused: dict[str, Refused]):
    reached = {place for ending in refused.values() for place in ending.places}
    raising = {place for name in MODULES for place in raising_functions(f"gradebook.tasks.{name}")}
    missing = {f"{module.removeprefix('gradebook.tasks.')}.{name}" for module, name in raising - reached}
    assert missing - {*ELSEWHERE} == set()
