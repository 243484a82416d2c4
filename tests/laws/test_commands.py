"""The table of commands in flows.cli and the commands themselves."""

import inspect
from pathlib import Path
from typing import Any

from gradebook.flows import commands
from gradebook.flows.cli import ENTRIES, SECTIONS, load_command
from gradebook.flows.commands.options import complete_run
from tests.support.law_over import law_over

WITHOUT_COMMAND = {"__init__", "options", "read_lake"}
OF_RUNS = {"run", "runs", "run_a", "run_b"}


def test_the_table_repeats_the_first_line_of_each_command():
    first_lines = {name: load_command(name).help.splitlines()[0] for name in ENTRIES}
    assert {name: entry.summary for name, entry in ENTRIES.items()} == first_lines


def test_the_table_has_each_module_of_commands_and_each_name_once():
    modules = {path.stem for path in Path(commands.__path__[0]).glob("*.py")} - WITHOUT_COMMAND
    assert {entry.target.partition(":")[0] for entry in ENTRIES.values()} == modules
    assert len(ENTRIES) == sum(map(len, SECTIONS.values()))


def with_subcommands(command: Any, name: str) -> dict[str, Any]:
    """A command and its subcommands, by name."""
    found = {name: command}
    for subcommand in getattr(command, "commands", {}).values():
        found |= with_subcommands(subcommand, f"{name} {subcommand.name}")
    return found


@law_over("name", ENTRIES)
def test_arguments_stand_before_options_in_the_help(name):
    command = load_command(name)
    text = command.get_help(command.make_context(name, [], resilient_parsing=True))
    assert "Arguments:" not in text or text.index("Arguments:") < text.index("Options:")


@law_over("name", ENTRIES)
def test_each_command_and_each_of_its_options_says_what_it_is_for(name):
    found = with_subcommands(load_command(name), name)
    assert [place for place, command in found.items() if not command.help] == []
    assert [(place, each.name) for place, command in found.items() for each in command.params if not each.help] == []


@law_over("name", ENTRIES)
def test_each_command_without_subcommands_has_an_example(name):
    found = {
        place: command.help
        for place, command in with_subcommands(load_command(name), name).items()
        if not getattr(command, "commands", {})
    }
    assert [place for place, words in found.items() if f"gradebook {place}" not in words] == []


@law_over("name", ENTRIES)
def test_each_file_to_write_has_the_short_option_too(name):
    found = with_subcommands(load_command(name), name)
    options = [(place, each.opts) for place, command in found.items() for each in command.params]
    assert [(place, opts) for place, opts in options if "--out" in opts and "-o" not in opts] == []


@law_over("name", ENTRIES)
def test_each_id_of_a_run_is_completed_so_that_it_takes_the_word_latest(name):
    found = [
        (place, each.name)
        for place, command in with_subcommands(load_command(name), name).items()
        if not getattr(command, "commands", {})
        for each in inspect.signature(command.callback).parameters.values()
        if each.name in OF_RUNS
        and not any(getattr(word, "autocompletion", None) is complete_run for word in each.annotation.__metadata__)
    ]
    assert found == []
