"""Keys and passwords: a full run with a canary for each, and then every byte that it left is searched."""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from gradebook.flows.cli import ENTRIES
from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from tests.support.loopback_judge import LoopbackJudge
from tests.support.prefect_homes import person, processes_of
from tests.support.samples import write_lines, write_outputs, write_rubric

KEY, PASSWORD, TOKEN = "sk-canary-0123456789", "pass-canary-9876543210", "token-canary-0123456789"
GRADEBOOK = [sys.executable, "-m", "gradebook.flows.cli"]
ROOT = Path(__file__).parents[3]


def holding(folder: Path, *secrets: str) -> list[str]:
    """The files below a folder that hold one of the secrets."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert paths
    return [f"{path}: {secret}" for path in paths for secret in secrets if secret.encode() in path.read_bytes()]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list["subprocess.CompletedProcess[str]"]]:
    """A folder with all that a judged run leaves: its Prefect home, temporary files, log, lake, report and site.

    The first run has a wrong key and is refused; the second one tells all, and its judge says the key back. The API and
    the commands that read, export, rate and crash come after it.
    """
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "tmp").mkdir()
    settings = person(folder) | {"TMPDIR": str(folder / "tmp"), "PGPASSWORD": PASSWORD, "PYTHONPATH": str(ROOT)}
    write_rubric(folder / "rubric.yaml"), write_outputs(folder / "outputs.jsonl")
    write_outputs(folder / "small.jsonl", models=("small",))
    evaluate = ["evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "gpt-4o-mini"]
    evaluate += ["--prefect", "--verbose"]
    with LoopbackJudge(key=KEY) as judge:
        settings["OPENAI_BASE_URL"] = judge.base_url
        wrong = settings | {"OPENAI_API_KEY": KEY + "-of-nobody"}
        right = settings | {"OPENAI_API_KEY": KEY}
        words = [
            (evaluate, wrong),
            ([*evaluate, "--record", "replies.jsonl"], right),
            (["lake", "site", "site"], right),
        ]
        finished = [_run([*GRADEBOOK, *line], folder, env) for line, env in words]
        finished += [_run([sys.executable, "-c", program], folder, right) for program in (API, CRASH)]
        finished.append(_run_many(folder, right))
        finished += [_run([*GRADEBOOK, *line.split()], folder, right) for line in ALONE]
        finished += [_open_pages(folder, right, line) for line in (["people", "rate", "--raters", "anna"], ["view"])]
        finished.append(_serve_rewards(folder, right))
    assert not processes_of(str(folder / "home"))
    return folder, finished


# Commands after the run, in one process: each ends with 0 or 1 and writes to stdout or to a file. `RUN` and `KEY`
# stand for the ids of the run and of a request.
LATER = (
    *(
        "train rewards --out rewards.jsonl",
        "train best --out best.parquet",
        "people ratings import sheet.csv --rubric rubric.yaml",
    ),
    *("train rewards --per-criterion --out criteria.jsonl", "lake otlp RUN --out otlp.jsonl", "report --format md"),
    *(
        "lake ledger verify",
        "lake ledger show KEY",
        "doctor --json",
        "status --json",
        "runs --json",
        "cost --json",
        "lake versions",
    ),
    *(
        "lake tables",
        "people raters",
        "people agreement RUN",
        "people calibrate RUN",
        "compare RUN --model-a small --model-b large",
        "judge noise",
        "suite power --sd 0.3 --n 100",
    ),
    *(
        "why RUN c1",
        "sql 'from judgments'",
        "judge compare RUN RUN",
        "judge improve RUN --dry-run",
        "judge calibrate RUN",
        "judge recalibrate RUN",
        "judge list",
        "suite checkpoints",
        "lake compact",
        "lake site pages",
    ),
    *(
        "rubric lint rubric.yaml",
        "rubric new new.yaml --from general_answer",
        "rubric draft outputs.jsonl --judge gpt-4o-mini",
        "rubric list",
        "rubric show rubric.yaml",
        "rubric schema",
    ),
    *("rubric register general_answer", "rubric diff general_answer rubric.yaml", "rubric checks show length_words"),
    *("rubric delete general_answer", "rubric export rubric.yaml --format dataknobs --out out.json"),
    *(
        "rubric import out.json --format dataknobs --out back.yaml",
        "rubric checks list",
        "rubric checks try length_words --text a --set max=3",
    ),
    *("judge trust RUN", "suite reference set RUN", "suite reference list", "suite reference clear short_answer"),
    *(
        "people ratings list",
        "people ratings show c1",
        "people ratings take RUN",
        "people export --out ratings.csv",
        "people outcomes list",
    ),
    *(
        "people outcomes import clicks.csv --name clicks",
        "people outcomes show RUN",
        "suite cases coverage cases.jsonl --against cases.jsonl",
        "suite cases items short_answer",
    ),
    *(
        "judge anchors make RUN --name set",
        "judge anchors list",
        "judge anchors ask set --judge gpt-4o-mini",
        "lake rebuild RUN --check",
    ),
    *(
        "rubric link short_answer@1.0.0 newer.yaml --anchors set --judge gpt-4o-mini",
        "rubric reweigh RUN --rubric heavier.yaml",
    ),
    *(
        "review reply.txt --rubrics general_answer --judge gpt-4o-mini",
        "suite sweep . --model small --rubric rubric.yaml",
    ),
    "collect prompts.jsonl --endpoint gpt-4o-mini --out collected.jsonl",
    "suite checkpoint small.jsonl --model small --step 1 --rubric rubric.yaml --judge gpt-4o-mini",
)
# Commands that answer on their own streams, or as a Prefect flow.
ALONE = ("suite nightly suites.yaml --prefect", "demo", "lake mcp")
# What the fixture itself runs; a checkpoint is only announced to a Prefect server that somebody has set up.
OTHERWISE = {"evaluate", "people rate", "view", "train serve", "suite notify"}
# Commands that refuse a run of so few outputs, without traces, repeated replies or another run.
TOO_SMALL = (
    *("'judge', 'noise'", "'judge', 'compare'", "'judge', 'improve'", "'judge', 'calibrate'", "'judge', 'recalibrate'"),
    *("'cases', 'items'", "'rubric', 'link'", "'lake', 'otlp'", "'people', 'export'", "'rubric', 'draft'"),
)
MANY = """
import json, sys
from gradebook.flows.cli import main
for words in json.load(sys.stdin):
    sys.argv = ["gradebook", *words]
    try:
        main()
    except SystemExit as end:
        if end.code not in (None, 0, 1):
            print(f"ended with {end.code}: {words}", file=sys.stderr)
"""


def test_the_canaries_meet_every_command():
    met = {leaf for leaf in ENTRIES for line in (*LATER, *ALONE) if f"{line} ".startswith(f"{leaf} ")}
    assert ENTRIES.keys() == met | OTHERWISE
    assert not met & OTHERWISE


API = """
import gradebook
rows = [{"case_id": "a", "model": "m", "prompt": "p", "output": "few words here"}]
print(gradebook.score(rows[0], "rubric.yaml", "gpt-4o-mini"))
print(repr(gradebook.evaluate(rows, "rubric.yaml", "gpt-4o-mini", "sqlite:api/catalog.sqlite")))
print(gradebook.Scorer("rubric.yaml", judge="gpt-4o-mini")(prompts=["p"], completions=["few words"]))
"""
CRASH = """
import os, sys
from gradebook.flows import cli
def crash(**_):
    raise OSError(f"{os.environ['OPENAI_API_KEY']!r} and {os.environ['PGPASSWORD']}")
cli.app = crash
cli.main()
"""


def _run(line: list[str], folder: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    empty = subprocess.DEVNULL
    return subprocess.run(
        line, cwd=folder, env=env, stdin=empty, capture_output=True, text=True, timeout=200, check=False
    )


def _run_many(folder: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """All commands of `LATER`, with the files that they read."""
    rubric = (folder / "rubric.yaml").read_text(encoding="utf-8")
    (folder / "heavier.yaml").write_text(rubric.replace("version: 1.0.0", "version: 1.1.0"), encoding="utf-8")
    (folder / "newer.yaml").write_text(rubric.replace("version: 1.0.0", "version: 2.0.0"), encoding="utf-8")
    (folder / "reply.txt").write_text("Thank you.", encoding="utf-8")
    write_lines(folder / "cases.jsonl", [{"case_id": f"c{n}", "prompt": f"Why {n}?", "topic": n % 2} for n in range(6)])
    write_lines(folder / "prompts.jsonl", [{"case_id": "c1", "prompt": "Why?"}])
    (folder / "clicks.csv").write_text("case_id,value\nc1,1\nc2,0\n", encoding="utf-8")
    sheet = "case_id,model,criterion_id,level_id,rater\nc1,small,clarity,clear,ann\nc1,small,clarity,clear,ben\n"
    (folder / "sheet.csv").write_text(sheet, encoding="utf-8")
    suite = "{id: a, outputs: outputs.jsonl, rubric: rubric.yaml, judge: gpt-4o-mini}"
    (folder / "suites.yaml").write_text(f"suites: [{suite}]\n", encoding="utf-8")
    lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    with connect(lake, read_only=True) as connection:
        ids = [row[0] for row in connection.execute("select run_id from runs order by created_at desc").fetchall()]
        key = connection.execute("select request_key from judgments").fetchall()[0][0]
    names = {"RUN": ids[0], "KEY": key}
    lines = [[names.get(word, word) for word in shlex.split(line)] for line in LATER]
    command = [sys.executable, "-c", MANY]
    return subprocess.run(
        command, cwd=folder, env=env, input=json.dumps(lines), capture_output=True, text=True, timeout=400, check=False
    )


def _serve_rewards(folder: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """A server of rewards, asked once with its token, and then ended by the system."""
    line = [*GRADEBOOK, "train", "serve", "rubric.yaml", "--judge", "gpt-4o-mini", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, cwd=folder, env=env | {"GRADEBOOK_REWARDS_TOKEN": TOKEN}, text=True, **pipes) as server:
        assert server.stdout is not None
        address = next(word for shown in server.stdout for word in shown.split() if word.startswith("http://"))
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        asked = urllib.request.Request(address, b'{"outputs": ["a b"]}', headers)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            shown = answer.read().decode()
        server.terminate()
        out, err = server.communicate(timeout=60)
    return subprocess.CompletedProcess(line, server.returncode, out + shown, err)


def _open_pages(folder: Path, env: dict[str, str], words: list[str]) -> "subprocess.CompletedProcess[str]":
    """Pages of a command, whose link is opened once, and which is then ended by the system."""
    line = [*GRADEBOOK, *words]
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, cwd=folder, env=env, text=True, **pipes) as server:
        assert server.stdout is not None
        link = server.stdout.readline().split()[-1]
        with browser.open(link, timeout=30) as page:
            shown = page.read().decode()
        server.terminate()
        out, err = server.communicate(timeout=60)
    return subprocess.CompletedProcess(line, server.returncode, out + shown, err)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_no_key_is_in_anything_that_a_run_writes(ran):
    folder, runs = ran
    told = {" ".join(map(str, run.args))[-60:]: (run.returncode, run.stderr) for run in runs}
    refused, done, site, api, crash, *others = told.values()
    assert (refused[0], done[0], site[0], api[0], crash[0]) == (3, 0, 0, 0, 3), told
    assert [end for end in others if end[0] not in (0, 1) or "Traceback" in end[1]] == []
    ended = [line for _, err in others for line in err.splitlines() if line.startswith("ended with")]
    assert [line for line in ended if not any(name in line for name in TOO_SMALL)] == []
    assert "unexpected OSError: '[secret]' and [secret] (traceback in " in crash[1]
    left = {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}
    assert {"home", "lake", "replies.jsonl", "site", "api", "rewards.jsonl", "best.parquet", "tmp"} <= left
    assert holding(folder, KEY, PASSWORD, TOKEN) == []
    assert not [secret for run in runs for secret in (KEY, PASSWORD, TOKEN) if secret in run.stdout + run.stderr]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_prefect_s_database_keeps_the_run_s_parameters_without_a_secret(ran):
    with sqlite3.connect(ran[0] / "home" / "prefect.db") as database:
        kept = [json.loads(row) for (row,) in database.execute("select parameters from flow_run")]
    database.close()
    assert "gpt-4o-mini" in [row.get("judge") for row in kept]
    assert "canary" not in str(kept)


WITH_PASSWORD = [
    f"dbname=x password={PASSWORD}",
    f"dbname=x PASSWORD = '{PASSWORD}'",
    f"dbname=x sslpassword={PASSWORD}",
    f"//ann:{PASSWORD}@db/x",
    f"//ann:{PASSWORD}/@db/x",
    f"//ann:a@{PASSWORD}@db/x",
    f"//db/x?user=ann&password={PASSWORD}",
    f"//db/x?%70assword={PASSWORD}",
    f"dbname=postgresql://ann:{PASSWORD}@db/x",
]


@pytest.mark.parametrize("address", WITH_PASSWORD)
def test_a_password_in_the_lake_s_address_is_refused_without_being_told(tmp_path, address):
    with pytest.raises(
        LakeError, match=r"found a password in the connection string.* PGPASSWORD or ~/.pgpass"
    ) as caught:
        find_lake(f"postgres:{address}", str(tmp_path))
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["dbname=x host=db user=ann passfile=/a/.pgpass", "//ann@db:5432/x", "//db:5432/x?sslmode=require", "service=lake"],
)
def test_an_address_without_a_password_is_taken(tmp_path, address):
    assert find_lake(f"postgres:{address}", str(tmp_path)).address.endswith(address)


def test_a_password_in_the_address_reaches_no_flow_run(tmp_path):
    """The command refuses it before Prefect starts, so that Prefect has no home afterwards."""
    write_outputs(tmp_path / "outputs.jsonl")
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    settings |= {"PREFECT_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    words = ["evaluate", "outputs.jsonl", "--rubric", "general_answer", "--lake", f"postgres:{WITH_PASSWORD[0]}"]
    refused = subprocess.run(
        [*GRADEBOOK, *words], cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2 and PASSWORD not in refused.stderr, refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outputs.jsonl"]
