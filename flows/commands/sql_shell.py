"""Interactive shell of `gradebook sql`: reads statements, a line or several each, until `.quit`."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gradebook.flows.commands.tables import show_columns, show_tables
from gradebook.flows.display.terminal import notes, plain
from gradebook.rubrics.model.errors import GradebookError, InputError

PROMPT, CONTINUED = "gradebook> ", "      ...> "
MOST_HISTORY = 1000
HELP = """\
A statement ends with ; and may take several lines. Ctrl-C drops it, or ends a running query.
.tables [NAME]  lists the tables, marts and views, or the columns of one
.help           shows this
.quit           leaves, as Ctrl-D does"""


def run_shell(answer: Callable[[str], None]) -> None:
    """Read statements from the terminal and answer each; a fault is printed and the shell goes on."""
    notes.print("a statement ends with ; and .help lists the commands of the shell", markup=False)
    with _history():
        for statement in _statements():
            try:
                if statement.startswith("."):
                    _obey(statement)
                else:
                    answer(statement)
            except GradebookError as error:
                notes.print("\n".join(map(plain, f"gradebook: {error}".splitlines())), markup=False)
            except KeyboardInterrupt:
                notes.print("interrupted")


def _statements() -> Iterator[str]:
    """Yield statements and dot commands until `.quit` or the end of the input."""
    lines: list[str] = []
    while True:
        try:
            line = input(CONTINUED if lines else PROMPT)
        except KeyboardInterrupt:
            lines = []
            notes.print()
            continue
        except EOFError:
            notes.print()
            return
        word = line.strip()
        if not lines and word in (".quit", ".exit"):
            return
        if not lines and (not word or word.startswith(".")):
            yield from [word] if word else []
            continue
        lines.append(line)
        if word.endswith(";"):
            yield "\n".join(lines)
            lines = []


def _obey(command: str) -> None:
    word, _, name = command.partition(" ")
    if word == ".tables" and name.strip():
        show_columns(name.strip().rstrip(";"))
    elif word == ".tables":
        show_tables()
    elif word == ".help":
        notes.print(HELP, markup=False)
    else:
        raise InputError("sql", repr(word), "a statement, .tables, .help or .quit")


@contextmanager
def _history() -> Iterator[None]:
    """Let the arrow keys find earlier lines, those of earlier shells too, if there is readline and a home folder."""
    try:
        import readline
    except ImportError:
        yield
        return
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    file = home / "gradebook" / "sql_history"
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_history_length(MOST_HISTORY)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)  # a query may name what nobody else should read
            readline.write_history_file(file)
