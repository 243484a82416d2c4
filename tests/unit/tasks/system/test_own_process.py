"""Calls in a process of its own."""

import os
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.system.processes import call_in_new_process


def test_a_call_returns_or_raises_what_its_process_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "pickle.py").write_text("raise SystemExit(9)")  # a user's file must not stand in for a library's
    monkeypatch.chdir(tmp_path)
    assert call_in_new_process(os.getpid) != os.getpid()
    with pytest.raises(ValueError, match="invalid literal"):
        call_in_new_process(int, "x")


def test_a_killed_process_is_named():
    with pytest.raises(UnfinishedError, match="the process of _exit ended without an answer, with 9"):
        call_in_new_process(os._exit, 9)
