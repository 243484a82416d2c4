"""Errors of the Python API name parameters."""

import pickle

import pytest

import gradebook
from gradebook.flows.api.wording import in_parameters
from gradebook.rubrics.model.errors import BudgetReached, InputError


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (InputError("--budget-usd", "-1", "0 or more"), "budget_usd: found -1, expected 0 or more"),
        (InputError("rows: name it, --map model=FOUND"), "rows: name it, column_map={'model': 'FOUND'}"),
        (InputError("run", "none", "one", "`gradebook runs --lake L` lists"), "`gradebook runs --lake L` lists"),
        (BudgetReached("run it with --budget-usd 2"), "run it with budget_usd 2"),
    ],
)
def test_options_are_parameters_and_commands_keep_theirs(raised, sentence):
    @in_parameters
    def call() -> None:
        raise raised

    with pytest.raises(type(raised)) as caught:
        call()
    assert sentence in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_every_fault_of_a_file_is_in_parameters():
    with pytest.raises(gradebook.OutputsError, match=r"column_map=\{'model': 'FOUND'\}, or name it with model"):
        gradebook.evaluate([{"case_id": "a", "output": "x"}], rubric="json_record")


def test_the_module_lists_its_public_names_alone():
    assert [name for name in dir(gradebook) if not name.startswith("__")] == gradebook.__all__
