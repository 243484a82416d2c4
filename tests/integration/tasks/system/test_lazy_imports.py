"""Deferred imports and paused garbage collection."""

import gc
import subprocess
import sys

import pytest

from gradebook.tasks.system.lazy_imports import deferred_imports, uncollected

WITHOUT_PANDAS = """
import sys
from gradebook.tasks.system.lazy_imports import allow_pandas, refuse_pandas
refuse_pandas()
import duckdb, pyarrow
table = pyarrow.table({"x": ["a", None]})
connection = duckdb.connect()
connection.register("given", table)
assert connection.execute("select x from given where x = ?", ["a"]).fetchall() == [("a",)]
assert "pandas" not in sys.modules
allow_pandas()
frame = table.to_pandas()
assert pyarrow.array(frame["x"]).to_pylist() == ["a", None]
"""


@pytest.fixture
def lone_module(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    return "this"


def test_a_deferred_module_is_imported_on_first_use(lone_module, capsys):
    with deferred_imports(lone_module):
        import this
    assert (lone_module in sys.modules, capsys.readouterr().out) == (False, "")
    assert this.s.startswith("Gur Mra")
    assert "The Zen of Python" in capsys.readouterr().out


def test_a_module_used_during_the_deferral_is_imported_at_once(lone_module, capsys):
    with deferred_imports(lone_module):
        from this import s
    assert s.startswith("Gur Mra")
    assert sys.modules[lone_module].s == s
    assert capsys.readouterr().out


def test_a_deferred_submodule_is_imported_on_first_use(monkeypatch):
    monkeypatch.delitem(sys.modules, "xml.dom.minicompat", raising=False)
    import xml.dom

    monkeypatch.delattr(xml.dom, "minicompat", raising=False)
    with deferred_imports("xml.dom.minicompat"):
        import xml.dom.minicompat as deferred
    assert "xml.dom.minicompat" not in sys.modules and not hasattr(xml.dom, "minicompat")
    assert issubclass(deferred.NodeList, list)
    assert "xml.dom.minicompat" in sys.modules and xml.dom.minicompat.NodeList is deferred.NodeList


def test_garbage_collection_resumes_after_the_last_import():
    with uncollected():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.nightly
def test_great_expectations_does_not_import_its_tests_and_renderers():
    code = "from gradebook.tasks.stages import suite_process; suite_process.warm_up().join(); import sys;"
    code += "print('scipy.stats' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "False\n"


def test_pandas_is_imported_only_where_it_is_allowed_and_works_from_then_on():
    finished = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
