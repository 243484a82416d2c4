"""`gradebook sql` without a query: a shell in a terminal, stdin on a pipe."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradebook.flows.display.terminal import stdout
from tests.support.scored_lake import make_lake


class Terminal(io.StringIO):
    """Stdin that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(gradebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command at an empty lake, in a terminal in which these lines are typed; an exception is raised instead."""
    make_lake(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def call(*lines: str | type[BaseException], words: tuple[str, ...] = ()) -> Any:
        asked: Iterator[Any] = iter([*lines, EOFError])
        prompts: list[str] = []

        def read_line(prompt: str) -> str:
            prompts.append(prompt)
            line = next(asked)
            if not isinstance(line, str):
                raise line
            return line

        monkeypatch.setattr("builtins.input", read_line)
        monkeypatch.setattr(sys, "stdin", Terminal())
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(stdout, "is_wide", True)
        finished = gradebook("sql", *words)
        return finished, prompts

    return call


def test_a_statement_may_take_several_lines(typed):
    finished, prompts = typed("select 1 + 1 as two,", "  3 as three;", ".quit", words=("--format", "csv"))
    assert (finished.code, finished.out) == (0, "two,three\n2,3\n")
    assert prompts == ["gradebook> ", "      ...> ", "gradebook> "]


def test_a_fault_is_printed_and_the_shell_goes_on(typed):
    finished, _ = typed("select nothing;", "drop table runs;", "select 7 as n;", words=("--format", "csv"))
    assert (finished.code, finished.out) == (0, "n\n7\n")
    assert 'gradebook: sql: Binder Error: Referenced column "nothing"' in finished.err and "\\n" not in finished.err
    assert "a statement of type DROP, expected one that only reads" in finished.err


def test_an_unknown_command_of_the_shell_names_those_that_there_are(typed):
    finished, _ = typed(".nope", ".help")
    told = finished.err.partition("gradebook: ")[2].splitlines()
    assert told[0] == "sql: found '.nope', expected a statement, .tables, .help or .quit"
    assert told[2].startswith(".tables [NAME]")


def test_the_limits_are_those_of_a_query_on_the_command_line(typed):
    finished, _ = typed("select count(*) from range(10_000_000_000) as a, range(1000);", words=("--timeout", "0.1"))
    assert "a query that takes longer than 0.1 s" in finished.err


def test_ctrl_c_drops_the_statement(typed):
    finished, prompts = typed("select 1 as one", KeyboardInterrupt, "select 2 as two;", words=("--format", "csv"))
    assert (finished.out, prompts[2]) == ("two\n2\n", "gradebook> ")


def test_the_shell_lists_tables_and_their_columns(typed):
    finished, _ = typed(".tables", ".tables run_scores", ".tables nothing", ".what")
    assert "latest_run_scores" in finished.out and "Mean score" in finished.out
    assert "found 'nothing'" in finished.err and ".quit" in finished.err


def test_the_history_is_readable_by_its_owner_alone(typed, tmp_path):
    typed(".quit")
    assert (tmp_path / "state" / "gradebook" / "sql_history").stat().st_mode & 0o777 == 0o600


def test_a_file_for_the_rows_needs_a_query(typed):
    finished, _ = typed(words=("--out", "rows.csv"))
    assert (finished.code, "--out: found no query" in finished.err) == (2, True)


def test_on_a_pipe_the_query_comes_from_stdin(gradebook, tmp_path, monkeypatch):
    make_lake(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 3 as n;\n"))
    finished = gradebook("sql", "--format", "csv")
    assert (finished.code, finished.out, finished.err) == (0, "n\n3\n", "")


def test_an_empty_pipe_is_refused(gradebook, tmp_path, monkeypatch):
    make_lake(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    finished = gradebook("sql")
    assert (finished.code, "found 0 statements, expected one" in finished.err) == (2, True)
