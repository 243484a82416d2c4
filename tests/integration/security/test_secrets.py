"""Keys and passwords: a full run with a canary for each, and then every byte that it left is searched."""

import json
import os
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import LakeError
from gradebook.tasks.lake.address import find_lake
from tests.support.loopback_judge import LoopbackJudge
from tests.support.prefect_homes import embedded, have_ended
from tests.support.samples import write_outputs, write_rubric

KEY, PASSWORD = "sk-canary-0123456789", "pass-canary-9876543210"
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
    settings = embedded(folder) | {"TMPDIR": str(folder / "tmp"), "PGPASSWORD": PASSWORD, "PYTHONPATH": str(ROOT)}
    write_rubric(folder / "rubric.yaml"), write_outputs(folder / "outputs.jsonl")
    evaluate = ["evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "gpt-4o-mini", "--verbose"]
    with LoopbackJudge(key=KEY) as judge:
        settings["OPENAI_BASE_URL"] = judge.base_url
        wrong = settings | {"OPENAI_API_KEY": KEY + "-of-nobody"}
        right = settings | {"OPENAI_API_KEY": KEY}
        words = [
            (evaluate, wrong),
            ([*evaluate, "--record", "replies.jsonl"], right),
            (["site", "site"], right),
        ]
        finished = [_run([*GRADEBOOK, *line], folder, env) for line, env in words]
        finished += [_run([sys.executable, "-c", program], folder, right) for program in (API, CRASH)]
        finished += [_run([*GRADEBOOK, *line.split()], folder, right) for line in LATER]
        finished.append(_rate(folder, right))
    assert have_ended(str(folder / "home"))  # else files vanish while they are searched
    return folder, finished


# Commands after the run, all of which write to stdout or to a file.
LATER = (
    *("export rewards --out rewards.jsonl", "export best --out best.parquet", "export ratings --out ratings.csv"),
    *("export rewards --per-criterion --out criteria.jsonl", "report --format md", "ledger verify", "doctor --json"),
    *("status --json", "runs --json", "cost --json", "versions", "rebuild --help", "raters"),
)
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
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False)


def _rate(folder: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Rating pages of the run, opened once and then ended by the system."""
    line = [*GRADEBOOK, "rate", "--raters", "anna"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, cwd=folder, env=env, text=True, **pipes) as server:
        assert server.stdout is not None
        link = server.stdout.readline().split()[-1]
        with urllib.request.urlopen(link, timeout=30) as page:
            shown = page.read().decode()
        server.terminate()
        out, err = server.communicate(timeout=60)
    return subprocess.CompletedProcess(line, server.returncode, out + shown, err)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_no_key_is_in_anything_that_a_run_writes(ran):
    folder, runs = ran
    told = {" ".join(map(str, run.args))[-60:]: (run.returncode, run.stderr[-2000:]) for run in runs}
    refused, done, site, api, crash, *others = told.values()
    assert (refused[0], done[0], site[0], api[0], crash[0]) == (3, 0, 0, 0, 3), told
    assert {code for code, _ in others} <= {0, 1, 2}, told
    assert "unexpected OSError: '[secret]' and [secret] (traceback in " in crash[1]
    left = {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}
    assert {"home", "lake", "replies.jsonl", "site", "api", "rewards.jsonl", "best.parquet", "tmp"} <= left
    assert holding(folder, KEY, PASSWORD) == []
    assert not [secret for run in runs for secret in (KEY, PASSWORD) if secret in run.stdout + run.stderr]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_prefect_s_database_keeps_the_run_s_parameters_without_a_secret(ran):
    with sqlite3.connect(ran[0] / "home" / "prefect.db") as database:
        kept = [json.loads(row) for (row,) in database.execute("select parameters from flow_run")]
    database.close()
    assert [row["judge"] for row in kept] == ["gpt-4o-mini"]
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
    """It is refused before Prefect starts: there is no home of it afterwards."""
    write_outputs(tmp_path / "outputs.jsonl")
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    settings |= {"PREFECT_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    words = ["evaluate", "outputs.jsonl", "--rubric", "general_answer", "--lake", f"postgres:{WITH_PASSWORD[0]}"]
    refused = subprocess.run(
        [*GRADEBOOK, *words], cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2 and PASSWORD not in refused.stderr, refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outputs.jsonl"]
