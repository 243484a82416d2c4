"""Errors of the command's input: what they carry and how they read."""

import pickle

import pytest

from gradebook.rubrics.model.errors import InputError, LakeError


def test_an_input_error_reads_as_place_found_expected_and_hint():
    error = InputError("--budget-usd", "-1", "dollars, 0 or more", "0 spends nothing")
    assert str(error) == "--budget-usd: found -1, expected dollars, 0 or more; 0 spends nothing"


def test_an_input_error_without_expected_is_a_clause_and_alone_a_sentence():
    assert str(InputError("--out", "can't write x: no space")) == "--out: can't write x: no space"
    assert str(InputError("several faults")) == "several faults"


def test_another_option_takes_a_fault_over_without_its_hint():
    error = InputError("compare", "the models a and b", "a common one", "--model-a names one")
    assert str(error.at("--baseline")) == "--baseline: found the models a and b, expected a common one"


@pytest.mark.parametrize("error", [InputError("a", "b", "c", "d"), LakeError("a"), LakeError("a", "b")])
def test_an_input_error_pickles(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.args) == (type(error), str(error), error.args)
