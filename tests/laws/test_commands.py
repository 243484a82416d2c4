"""The table of commands in flows.cli and the commands themselves."""

import inspect
from pathlib import Path

import pytest

from gradebook.flows import commands
from gradebook.flows.cli import ENTRIES, GROUPS, RENAMED, SECTIONS, load_command
from gradebook.flows.commands.options import complete_run
from tests.support.law_over import law_over

WITHOUT_COMMAND = {"__init__", "options", "read_lake"}
OF_RUNS = {"run", "runs", "run_a", "run_b"}
MOST_LINES = 40  # of `gradebook --help`, at 80 columns


def test_the_table_repeats_the_first_line_of_each_command():
    first_lines = {name: load_command(name).help.splitlines()[0] for name in ENTRIES}
    assert {name: entry.summary for name, entry in ENTRIES.items()} == first_lines


def test_the_table_has_each_module_of_commands_and_each_name_once():
    modules = {path.stem for path in Path(commands.__path__[0]).glob("*.py")} - WITHOUT_COMMAND
    assert {entry.target.partition(":")[0] for entry in ENTRIES.values()} == modules
    top = [name.partition(" ")[0] for name in (*ENTRIES, *GROUPS)]
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(set(top))


def test_each_earlier_name_leads_to_a_command_or_group():
    assert [new for new in RENAMED.values() if new not in ENTRIES and new not in GROUPS] == []
    assert [old for old in RENAMED if old in ENTRIES or old in GROUPS] == []


def test_an_earlier_name_works_and_says_the_present_one(gradebook):
    finished = gradebook("checks", "list", "--json")
    assert finished.code == 0
    assert finished.err == "gradebook: `checks` is now `rubric checks`\n"
    assert finished.out == gradebook("rubric", "checks", "list", "--json").out


@pytest.mark.parametrize(("old", "names"), [("export", "people export or train rewards"), ("notify", "suite notify")])
def test_an_earlier_group_that_was_divided_names_its_commands(gradebook, old, names):
    finished = gradebook(old)
    assert (finished.code, finished.out) == (2, "")
    assert names in finished.err


def test_the_help_of_the_program_fits_a_terminal(gradebook, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert len(gradebook("--help").out.splitlines()) <= MOST_LINES


@law_over("name", [*ENTRIES, *GROUPS])
def test_each_command_and_group_can_be_asked_for_help(gradebook, name):
    finished = gradebook(*name.split(), "--help")
    assert finished.code == 0
    assert f"Usage: gradebook {name} " in finished.out


@law_over("name", ENTRIES)
def test_arguments_stand_before_options_in_the_help(name):
    command = load_command(name)
    text = command.get_help(command.make_context(name, [], resilient_parsing=True))
    assert "Arguments:" not in text or text.index("Arguments:") < text.index("Options:")


@law_over("name", ENTRIES)
def test_each_option_of_a_command_says_what_it_is_for(name):
    assert [parameter.name for parameter in load_command(name).params if not parameter.help] == []


@law_over("name", ENTRIES)
def test_each_command_has_an_example(name):
    assert f"gradebook {name}" in load_command(name).help


@law_over("name", ENTRIES)
def test_each_file_to_write_has_the_short_option_too(name):
    options = [parameter.opts for parameter in load_command(name).params]
    assert [opts for opts in options if "--out" in opts and "-o" not in opts] == []


@law_over("name", ENTRIES)
def test_each_id_of_a_run_is_completed_so_that_it_takes_the_word_latest(name):
    parameters = inspect.signature(load_command(name).callback).parameters.values()
    found = [
        parameter.name
        for parameter in parameters
        if parameter.name in OF_RUNS
        and not any(getattr(word, "autocompletion", None) is complete_run for word in parameter.annotation.__metadata__)
    ]
    assert found == []
