import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.measures import MeasureSettings, judge_measures

VALUES = pa.array([0.5, 3 / 7, None, 1.0], pa.float64())


def test_bounds_are_inclusive_and_the_evidence_gives_the_number():
    found = judge_measures(VALUES, MeasureSettings(min=0.5, max=0.9), "token F1")
    assert found.is_passed.to_pylist() == [True, False, None, False]
    assert found.evidence.to_pylist() == [
        "token F1 0.5",
        "token F1 0.428571, at least 0.5 required",
        None,
        "token F1 1, at most 0.9 allowed",
    ]


def test_a_number_becomes_the_highest_level_that_it_reaches():
    found = judge_measures(VALUES, MeasureSettings(levels={"good": 1, "partial": 0.5}), "token F1")
    assert found.level_ids.to_pylist() == ["partial", None, None, "good"]
    assert found.is_passed.to_pylist() == [True, False, None, True]


@pytest.mark.parametrize(
    "settings", [{}, {"levels": {}}, {"min": 1, "levels": {"good": 1}}, {"min": 2, "max": 1}], ids=str
)
def test_settings_hold_bounds_or_levels(settings):
    with pytest.raises(ValidationError):
        MeasureSettings.model_validate(settings)


def test_a_bound_that_is_no_number_is_refused():
    with pytest.raises(ValidationError):
        MeasureSettings(min=float("nan"))


def test_what_is_not_a_number_passes_no_bound():
    found = judge_measures(pa.array([float("nan"), 1.0]), MeasureSettings(min=0.5), "token F1")
    assert (found.is_passed.to_pylist(), found.evidence.to_pylist()) == ([None, True], [None, "token F1 1"])


@pytest.mark.parametrize(
    ("value", "settings", "evidence"),
    [
        (0.4999999999, {"min": 0.5}, "token F1 0.4999999999, at least 0.5 required"),
        (0.5000000001, {"max": 0.5}, "token F1 0.5000000001, at most 0.5 allowed"),
        (0.4999999999, {"levels": {"good": 0.5}}, "token F1 0.4999999999"),
        (0.4999999999, {"max": 0.5}, "token F1 0.5"),
        (1 / 3, {"min": 0.5}, "token F1 0.333333, at least 0.5 required"),
    ],
)
def test_a_value_just_beyond_its_bound_does_not_read_as_equal(value, settings, evidence):
    found = judge_measures(pa.array([value]), MeasureSettings.model_validate(settings), "token F1")
    assert found.evidence.to_pylist() == [evidence]
