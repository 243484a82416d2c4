"""The table of commands in flows.cli and the commands themselves."""

from pathlib import Path
from typing import Any

from gradebook.flows import commands
from gradebook.flows.cli import ENTRIES, SECTIONS, load_command
from tests.support.law_over import law_over

WITHOUT_COMMAND = {"__init__", "completion", "new_rubric", "options", "read_lake", "sql_shell"}


def test_the_table_repeats_the_first_line_of_each_command():
    first_lines = {name: load_command(name).help.splitlines()[0] for name in ENTRIES}
    assert {name: entry.summary for name, entry in ENTRIES.items()} == first_lines


def test_the_table_has_each_module_of_commands_and_each_name_once():
    modules = {path.stem for path in Path(commands.__path__[0]).glob("*.py")} - WITHOUT_COMMAND
    assert {entry.target.partition(":")[0] for entry in ENTRIES.values()} == modules
    assert len(ENTRIES) == sum(map(len, SECTIONS.values()))


def descriptions(command: Any, name: str) -> dict[str, str | None]:
    """The help of a command, of its subcommands and of all their options, by name."""
    found = {name: command.help}
    found |= {f"{name} {each.name}": getattr(each, "help", None) for each in command.params}
    for subcommand in getattr(command, "commands", {}).values():
        found |= descriptions(subcommand, f"{name} {subcommand.name}")
    return found


@law_over("name", ENTRIES)
def test_arguments_stand_before_options_in_the_help(name):
    command = load_command(name)
    text = command.get_help(command.make_context(name, [], resilient_parsing=True))
    assert "Arguments:" not in text or text.index("Arguments:") < text.index("Options:")


@law_over("name", ENTRIES)
def test_each_command_and_each_of_its_options_says_what_it_is_for(name):
    assert [place for place, text in descriptions(load_command(name), name).items() if not text] == []
