"""The example notebooks: their cells run in order, and what they show is what the cells give.

python tests/integration/examples/test_notebook.py   # runs them and writes what they give
"""

import ast
import importlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
NOTEBOOKS = ("notebook.ipynb", "learning.ipynb")


def run_cells(cells: list[dict[str, Any]]) -> list[str]:
    """Run the code cells in one namespace; returns what each shows: its last expression."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "notebook", "exec"), names)  # noqa: S102 - the repository's own notebook
        code = None if last is None else compile(ast.Expression(last.value), "notebook", "eval")
        value = None if code is None else eval(code, names)  # noqa: S307
        shown.append("" if value is None else repr(value))
    return shown


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs_of(cell: dict[str, Any]) -> str:
    return "".join(line for each in cell["outputs"] for line in each["data"]["text/plain"])


def write_outputs(notebook: dict[str, Any]) -> None:
    """Run the cells and put what they show into the notebook."""
    cells = code_cells(notebook)
    for count, (cell, text) in enumerate(zip(cells, run_cells(cells), strict=True), 1):
        plain = {"text/plain": text.splitlines(keepends=True)}
        result = {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": plain}
        cell |= {"execution_count": count, "outputs": [result] if text else []}


@pytest.mark.nightly
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_cells_run_and_give_what_the_notebook_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    cells = code_cells(json.loads((EXAMPLES / name).read_text(encoding="utf-8")))
    assert run_cells(cells) == [outputs_of(cell) for cell in cells]


def test_what_notebooks_and_benchmarks_import_is_there():
    """A renamed function is found on the same day: the cells and the benchmarks run only at night, or by hand."""
    cells = [cell for name in NOTEBOOKS for cell in code_cells(json.loads((EXAMPLES / name).read_text("utf-8")))]
    sources = ["".join(cell["source"]) for cell in cells]
    sources += [path.read_text("utf-8") for path in sorted(EXAMPLES.with_name("bench").glob("*.py"))]
    statements = [each for source in sources for each in ast.walk(ast.parse(source))]
    imports = [each for each in statements if isinstance(each, ast.ImportFrom) and each.module]
    ours = [each for each in imports if each.module.partition(".")[0] in {"gradebook", "tests"}]
    names = {(each.module, alias.name) for each in ours for alias in each.names}
    assert sorted((module, name) for module, name in names if not hasattr(importlib.import_module(module), name)) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_has_the_form_that_jupyter_reads(name):
    notebook = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    fields = {"code": {"id", "cell_type", "metadata", "source", "execution_count", "outputs"}}
    fields["markdown"] = {"id", "cell_type", "metadata", "source"}
    assert [cell["id"] for cell in notebook["cells"] if cell.keys() != fields[cell["cell_type"]]] == []


if __name__ == "__main__":
    for path in (EXAMPLES / name for name in NOTEBOOKS):
        found = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            write_outputs(found)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
