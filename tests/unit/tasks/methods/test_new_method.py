"""A method that the product does not have: settings, a module and a line, as docs/architecture.md says."""

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.methods import METHODS as SETTINGS
from gradebook.rubrics.model.outputs import Output
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.tasks.methods.method import ScoringSetup
from gradebook.tasks.methods.table import METHODS
from gradebook.tasks.rewards.computing import CodeScorer
from gradebook.tasks.rewards.outputs import ReadOutput
from gradebook.tasks.scoring.shards import compute_verdicts, score_shard, shard_work
from gradebook.tasks.workspace.folder import RunFolder

ROOT = Path(__file__).parents[4]
OF_SETTINGS = '''
class LinesMethod(MethodSettings):
    """outputs of at most so many lines"""

    is_by_code: ClassVar[bool] = True
    type: Literal["lines"]
    """`lines`"""
    most: int
    """number of lines"""
'''
MODULE = '''
"""Method `lines`: outputs of at most so many lines."""

import pyarrow as pa

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.checks.grading import CheckedCriterion
from gradebook.tasks.methods.method import CodeMethod


class LinesScoring(CodeMethod):
    def columns(self, criterion):
        return ("output_id", "output")

    def outcomes(self, criterion, schemas):
        def decide(rows, folders):
            counts = [text.count("\\n") + 1 for text in rows.column("output").to_pylist()]
            is_passed = pa.array([count <= criterion.method.most for count in counts])
            found = CheckVerdicts(is_passed, pa.array([f"lines: {count}" for count in counts]))
            yield CheckedCriterion(criterion, rows.column("output_id").combine_chunks(), found)

        return decide
'''


@pytest.fixture
def rubric(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rubric:
    path = tmp_path / "lines_method.py"
    imports = "from typing import ClassVar, Literal\nfrom gradebook.rubrics.model.methods import MethodSettings\n"
    path.write_text(f"{imports}{OF_SETTINGS}{MODULE}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("lines_method")
    monkeypatch.setitem(METHODS, "lines", module.LinesScoring())
    method = module.LinesMethod(type="lines", most=1)
    criterion = Criterion.model_construct(id="brief", description="Few lines?", method=method)
    return Rubric.model_construct(id="r", version="1.0.0", criteria=(criterion,))


def test_each_kind_of_settings_has_its_object():
    assert {*METHODS} == {*SETTINGS, "steps"}


def test_a_shard_a_cluster_and_single_outputs_are_scored_by_it(rubric: Rubric, tmp_path: Path):
    shard = str(tmp_path / "shard.parquet")
    pq.write_table(pa.table({"output_id": ["a", "b"], "output": ["one", "one\ntwo"]}), shard)
    here, there = (ScoringSetup(RunFolder(tmp_path / name), {}) for name in ("here", "there"))
    for setup in (here, there):
        setup.folder.path.mkdir()
    by_thread = pq.read_table(score_shard(here, rubric.criteria[0], shard, 0))
    assert by_thread.select(["method", "score", "evidence"]).to_pylist() == [
        {"method": "lines", "score": 1.0, "evidence": "lines: 1"},
        {"method": "lines", "score": 0.0, "evidence": "lines: 2"},
    ]
    (computation,) = shard_work(there, rubric, shard, 0).computations
    compute_verdicts(computation, there.shards)
    assert pq.read_table(computation.target).column("score").to_pylist() == [1.0, 0.0]
    output = ReadOutput("a", Output("c", "m", None, 0, None, "one\ntwo", None, None, None, None))
    assert CodeScorer(rubric, None, {}).score([output])[0, "brief"].evidence == "lines: 2"


@pytest.mark.nightly
def test_a_tree_with_a_module_and_a_line_more_evaluates_it(tmp_path: Path):
    for name in ("flows", "tasks", "rubrics", "sql", "pages", "gradebook"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tasks/methods/lines.py").write_text(MODULE, encoding="utf-8")
    changes = {
        "rubrics/model/methods.py": [
            ("Method = Annotated[\n", f"{OF_SETTINGS}\n\nMethod = Annotated[\n    LinesMethod |\n")
        ],
        "tasks/methods/table.py": [
            ("from gradebook.tasks.methods.check", "from gradebook.tasks.methods.lines import LinesScoring\n{}"),
            ('    "check": ', '    "lines": LinesScoring(),\n{}'),
        ],
    }
    for name, pairs in changes.items():
        text = (tmp_path / name).read_text(encoding="utf-8")
        for before, after in pairs:
            assert text.count(before) == 1
            text = text.replace(before, after.replace("{}", before))
        (tmp_path / name).write_text(text, encoding="utf-8")
    rubric = "{id: r, version: 1.0.0, criteria: [{id: brief, description: Few lines?, method: {type: lines, most: 1}}]}"
    (tmp_path / "r.yaml").write_text(rubric, encoding="utf-8")
    rows = '{"case_id": "a", "model": "m", "output": "one"}\n{"case_id": "b", "model": "m", "output": "one\\ntwo"}\n'
    (tmp_path / "o.jsonl").write_text(rows, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "gradebook", "evaluate", "o.jsonl", "--rubric", "r.yaml", "--json"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, '"mean": 0.5' in ended.stdout) == (0, True), ended
