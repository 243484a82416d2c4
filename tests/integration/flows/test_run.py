"""The one rule: a flow where Prefect has an API or is asked for, else this process alone, and nothing stays behind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradebook.flows.run import uses_prefect
from tests.support.prefect_homes import person, processes_of
from tests.support.samples import write_outputs

ROOT = Path(__file__).parents[3]
API = 'PREFECT_API_URL = "http://127.0.0.1:9/api"'
PROFILES = {  # of a person's profiles.toml, and whether a run is a flow
    "none": (None, False),
    "active": (f'active = "ours"\n[profiles.ours]\n{API}\n', True),
    "another": (f'active = "mine"\n[profiles.mine]\n[profiles.ours]\n{API}\n', False),
}
RULE = "from gradebook.flows.run import uses_prefect; import sys; print(uses_prefect(None), 'prefect' in sys.modules)"
# Runs commands in one process, and says which modules it has.
COMMANDS = """
import sys
from gradebook.flows.cli import main
for line in sys.argv[1:]:
    sys.argv = ["gradebook", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (line, end.code)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"prefect", "great_expectations", "fastapi"}))
"""


def start(folder: Path, code: str, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    settings = person(folder) | {"PYTHONPATH": str(ROOT)} | more
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=folder, env=settings, **pipes)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_is_a_flow_where_a_variable_or_the_active_profile_names_a_server(tmp_path):
    started = {}
    for name, (text, _) in PROFILES.items():
        (home := tmp_path / name / "home").mkdir(parents=True)
        if text is not None:
            (home / "profiles.toml").write_text(text, encoding="utf-8")
        started[name] = start(tmp_path / name, RULE)
    (tmp_path / "variable").mkdir()
    started["variable"] = start(tmp_path / "variable", RULE, PREFECT_API_URL="http://127.0.0.1:9/api")
    found = {name: process.communicate(timeout=60)[0].split() for name, process in started.items()}
    # Prefect is imported only where a file or a variable may name a server.
    assert found == {
        "none": ["False", "False"],
        "active": ["True", "True"],
        "another": ["False", "True"],
        "variable": ["True", "True"],
    }


def test_what_is_asked_for_comes_before_what_is_configured(monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert (uses_prefect(True), uses_prefect(False)) == (True, False)


@pytest.mark.nightly
@pytest.mark.slow
def test_commands_without_prefect_import_neither_it_nor_suites_and_leave_no_process(tmp_path):
    suites = {"suites": [{"id": "s", "outputs": "outputs.jsonl", "rubric": "rubric.yaml"}]}
    (tmp_path / "suites.yaml").write_text(json.dumps(suites), encoding="utf-8")
    lines = (
        "evaluate outputs.jsonl --rubric rubric.yaml --run-id one",
        "nightly suites.yaml",
        "rescore one --rubric rubric.yaml",
        "review outputs.jsonl --rubric rubric.yaml",
        "checkpoint large.jsonl --model large --step 1 --rubric rubric.yaml",
    )
    write_outputs(tmp_path / "large.jsonl", models=("large",))
    process = start(tmp_path, COMMANDS, *lines)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "[]"
    assert processes_of(str(tmp_path / "home")) == []
    assert not (tmp_path / "home").exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_a_server_that_never_answers_is_named_in_a_sentence(tmp_path):
    words = (sys.executable, "-m", "gradebook", "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml")
    settings = person(tmp_path) | {"PYTHONPATH": str(ROOT), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    settings |= {"PREFECT_CLIENT_MAX_RETRIES": "0"}
    ended = subprocess.run(words, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 3
    assert "gradebook: Prefect's server at http://127.0.0.1:9/api does not answer" in ended.stderr
    assert "--no-prefect" in ended.stderr and "Traceback" not in ended.stderr
    assert not subprocess.call([*words, "--no-prefect"], cwd=tmp_path, env=settings, stdout=subprocess.DEVNULL)
