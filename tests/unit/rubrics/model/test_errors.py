"""The error tree: what it says, and that it survives the way between processes."""

import pickle

import pytest

from gradebook.rubrics.model import errors
from gradebook.rubrics.model.errors import Fault, FaultList, GradebookError, InputError, RubricError, UnfinishedError
from tests.support.law_over import law_over

INPUT_ERRORS = ["RubricError", "OutputsError", "RatingsError", "SuitesError", "LakeError", "QueryError"]
INPUT_ERRORS += ["JudgeSettingsError"]
FAULT = Fault("support.yaml", 7, "criteria[0].weight: found 'heavy', expected a number")


def test_a_fault_names_its_file_and_line_first():
    assert str(FAULT) == "support.yaml:7: criteria[0].weight: found 'heavy', expected a number"


def test_a_fault_of_a_whole_file_has_no_line():
    assert str(Fault("support.yaml", None, "found no such file")) == "support.yaml: found no such file"


def test_an_error_tells_one_fault_a_line():
    assert str(RubricError((FAULT, FAULT))) == f"{FAULT}\n{FAULT}"


def test_an_error_tells_twenty_faults_and_counts_the_rest():
    # 23 faults: 20 are shown, 3 are counted
    lines = str(RubricError((FAULT,) * 23)).splitlines()
    assert lines == [str(FAULT)] * 20 + ["... and 3 more"]


def test_a_reader_stops_at_a_thousand_faults_and_leaves_the_rest_uncounted():
    faults = FaultList(RubricError)
    rest = iter(range(2_000))
    with pytest.raises(RubricError) as stopped:
        faults.add(FAULT for _ in rest)
    assert (len(stopped.value.faults), next(rest)) == (1_000, 1_000)
    assert str(stopped.value).endswith(f"{FAULT}\n... and more")


def test_twenty_faults_are_all_told():
    assert str(RubricError((FAULT,) * 20)).splitlines() == [str(FAULT)] * 20


def test_an_error_with_faults_keeps_them_through_pickle():
    assert pickle.loads(pickle.dumps(RubricError((FAULT,)))).faults == (FAULT,)


def test_wrong_input_ends_with_2_and_an_unfinished_run_with_3():
    assert (InputError.exit_code, UnfinishedError.exit_code) == (2, 3)


@law_over("name", INPUT_ERRORS)
def test_what_a_person_has_to_correct_is_an_input_error(name: str):
    assert issubclass(getattr(errors, name), InputError)


@pytest.mark.parametrize("name", ["BudgetReached", "EndpointUnavailable", "LakeUnavailable", "QualityNotMet"])
def test_what_stops_a_run_on_its_way_is_an_unfinished_error(name: str):
    assert issubclass(getattr(errors, name), UnfinishedError)


def test_every_error_of_the_module_is_in_the_tree_of_its_docstring():
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GradebookError)]
    public = {kind.__name__ for kind in classes if not kind.__name__.startswith("_")}
    assert {name for name in public if name not in str(errors.__doc__)} == set()
