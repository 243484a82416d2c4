"""gradebook installed from its wheel, used in a folder with modules that are named as its rooms."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.support.samples import write_outputs

ROOT = Path(__file__).parents[2]
PREFECT = ("-m", "prefect", "--no-prompt")
TRAP = 'raise ImportError(f"{__name__} of the user was imported")\n'
USER_MODULES = ("tasks", "flows", "rubrics", "sql", "examples", "tests", "pages")

RUBRIC = """
id: short
version: 1.0.0
criteria:
  - id: length
    description: Between 2 and 50 words.
    weight: 1
    method: {type: check, check: length_words, settings: {min: 2, max: 50}}
"""
SCRIPT = """
import gradebook
from gradebook.rubrics.files.load import read_rubric, shipped_rubrics
from gradebook.tasks.lake.address import find_lake

assert all(read_rubric(name).criteria for name in shipped_rubrics())
assert find_lake("sqlite:lake/catalog.sqlite")
print(gradebook.__file__)
"""
TEST = """
import gradebook
from gradebook.tasks.lake.address import find_lake

def test_a_lake_is_found():
    assert find_lake("sqlite:lake/catalog.sqlite")
"""


def run(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    """The output of a command that succeeds."""
    finished = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, f"{command}\n{finished.stdout}{finished.stderr}"
    return finished.stdout


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build a `wheel` or an `sdist` of a source tree."""
    run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder], source, dict(os.environ))
    (built,) = folder.iterdir()
    return built


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, which finds the dependencies where these tests do."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder)
    site_packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # A .pth file in a folder that a .pth file names is not read: an editable install of the checkout is not followed.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", wheel], folder, plain_environment())
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder: outputs, a rubric, and modules that fail when they are imported."""
    for name in USER_MODULES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(TRAP, encoding="utf-8")
    (tmp_path / "tasks" / "__init__.py").rename(tmp_path / "tasks.py")
    (tmp_path / "tasks").rmdir()
    write_outputs(tmp_path / "outputs.jsonl", count=3, models=("one",))
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "test_script.py").write_text(TEST, encoding="utf-8")
    return tmp_path


def plain_environment(path: str | None = None) -> dict[str, str]:
    """The environment variables of a user, with a PYTHONPATH or without."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | ({"PYTHONPATH": path} if path else {}) | {"NO_COLOR": "1"}


def test_the_wheel_has_one_package_at_its_top(wheel):
    top = {name.partition("/")[0] for name in names_in(wheel)}
    assert top == {"gradebook", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}


def test_the_wheel_has_each_file_of_the_rooms(wheel):
    package = ROOT / "gradebook"
    rooms = [path for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"]
    paths = [path for room in rooms for path in room.resolve().rglob("*") if path.is_file()]
    expected = {"gradebook/" + path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts}
    expected |= {f"gradebook/{name}" for name in ("__init__.py", "__main__.py", "py.typed", "rewards.py")}
    found = {name for name in names_in(wheel) if name.startswith("gradebook/")}
    assert found == expected


@pytest.mark.nightly
def test_a_source_distribution_gives_the_same_wheel(wheel, tmp_path):
    source = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (unpacked,) = (tmp_path / "source").iterdir()
    assert names_in(build("wheel", unpacked, tmp_path / "wheel")) == names_in(wheel)


@pytest.mark.nightly
@pytest.mark.parametrize(("command", "path"), [(("gradebook",), "."), (("python", "-m", "gradebook"), None)])
def test_the_command_runs_beside_the_user_s_modules(environment, folder, command, path):
    words = [environment / "bin" / command[0], *command[1:], "checks", "list"]
    assert "length_words" in run(words, folder, plain_environment(path))


@pytest.mark.nightly
def test_the_version_is_that_of_the_wheel(environment, wheel, folder):
    version = run([environment / "bin" / "gradebook", "--version"], folder, plain_environment())
    assert version == f"gradebook {wheel.name.split('-')[1]}\n"


@pytest.mark.nightly
def test_a_script_imports_what_is_installed(environment, folder):
    printed = run([environment / "bin" / "python", "script.py"], folder, plain_environment("."))
    assert Path(printed.strip()).is_relative_to(environment)


def test_pytest_runs_beside_the_user_s_modules(environment, folder):
    command = [environment / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_script.py"]
    assert "1 passed" in run(command, folder, plain_environment("."))


@pytest.mark.nightly
@pytest.mark.slow
def test_an_evaluation_runs_here_and_as_a_flow(environment, folder):
    settings = plain_environment(".") | {"PREFECT_HOME": str(folder / "home")}
    command = [environment / "bin" / "gradebook", "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--json"]
    for more in ([], ["--prefect"]):
        found = json.loads(run([*command, *more], folder, settings))
        assert (found["status"], found["output_count"]) == ("published", 3)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.server
def test_a_worker_runs_a_deployment_of_the_user_s_folder(environment, folder, prefect_server):
    shipped = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    (outputs,) = [each for each in shipped["deployments"] if each["name"] == "outputs"]
    outputs["name"], outputs["work_pool"]["name"] = "installed", "installed"
    outputs["parameters"] = {"outputs": "outputs.jsonl", "rubric": "rubric.yaml", "lake": "sqlite:lake/catalog.sqlite"}
    (folder / "prefect.yaml").write_text(yaml.safe_dump(shipped | {"deployments": [outputs]}), encoding="utf-8")
    python, settings = environment / "bin" / "python", plain_environment(".")
    run([python, *PREFECT, "work-pool", "create", "installed", "--type", "process"], folder, settings)
    run([python, *PREFECT, "deploy", "--all"], folder, settings)
    run([python, *PREFECT, "deployment", "run", "evaluate-outputs/installed"], folder, settings)
    worked = run([python, *PREFECT, "worker", "start", "--pool", "installed", "--run-once"], folder, settings)
    query = "select status, output_count from runs"
    listed = run([environment / "bin" / "gradebook", "sql", query, "--format", "csv"], folder, settings)
    assert listed == "status,output_count\npublished,3\n", worked


def test_a_checkout_runs_beside_the_user_s_modules(folder):
    path = os.pathsep.join([".", str(ROOT)])  # the user's modules come first
    command = [sys.executable, "-m", "gradebook", "rubric", "checks", "list"]
    assert "length_words" in run(command, folder, plain_environment(path))
