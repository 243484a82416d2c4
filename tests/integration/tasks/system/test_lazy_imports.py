"""Slow imports made cheaper: what is put off is there all the same, and garbage is collected again afterwards."""

import gc
import subprocess
import sys

import pytest

from gradebook.tasks.system.lazy_imports import deferred_imports, uncollected


@pytest.fixture
def lone_module(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    return "this"


def test_a_module_put_off_is_imported_when_it_is_used(lone_module, capsys):
    with deferred_imports(lone_module):
        import this
    assert (lone_module in sys.modules, capsys.readouterr().out) == (False, "")
    assert this.s.startswith("Gur Mra")
    assert "The Zen of Python" in capsys.readouterr().out


def test_a_module_used_while_it_is_put_off_is_imported_at_once(lone_module, capsys):
    with deferred_imports(lone_module):
        from this import s
    assert s.startswith("Gur Mra")
    assert sys.modules[lone_module].s == s
    assert capsys.readouterr().out


def test_garbage_is_collected_again_when_the_last_import_is_done():
    with uncollected():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_great_expectations_leaves_its_tests_and_drawings_unimported():
    code = "from gradebook.tasks.stages import quality; quality.warm_up().join(); import sys;"
    code += "print('scipy.stats' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"
