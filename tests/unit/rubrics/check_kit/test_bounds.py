"""Counts against bounds, or as levels of the criterion."""

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.check_kit.measures import BoundsSettings, judge_counts
from gradebook.rubrics.checks.registry import check_names, find_check
from tests.support.law_over import law_over

COUNTS = pa.array([0, 1, 50, 99, 100, 100], pa.int64())
MEASURING = [name for name in check_names() if {"min", "max"} <= find_check(name).settings_model.model_fields.keys()]


def test_a_count_becomes_the_highest_level_that_it_reaches():
    found = judge_counts(COUNTS, BoundsSettings(levels={"good": 100, "fair": 50}), "word", "words")
    assert found.level_ids is not None
    assert found.level_ids.to_pylist() == [None, None, "fair", "fair", "good", "good"]
    assert found.is_passed.to_pylist() == [False, False, True, True, True, True]
    assert found.evidence.to_pylist() == ["0 words", "1 word", "50 words", "99 words", "100 words", "100 words"]


@pytest.mark.parametrize(
    "settings", [{}, {"levels": {}}, {"min": 1, "levels": {"good": 1}}, {"levels": {"good": -1}}], ids=str
)
def test_settings_hold_bounds_or_levels(settings):
    with pytest.raises(ValidationError):
        BoundsSettings.model_validate(settings)


NEED_MORE = {"count_headings", "length_tokens", "step_total", "tool_called"}  # settings besides bounds


@law_over("name", [name for name in MEASURING if name not in NEED_MORE])
def test_every_check_that_measures_takes_levels(name: str):
    check = find_check(name)
    if "levels" not in check.settings_model.model_fields:
        pytest.fail(f"{name} takes min and max, and no levels")
    required = {field: "x" for field, info in check.settings_model.model_fields.items() if info.is_required()}
    assert read_settings(check, {"levels": {"good": 1}, **required}).levels == {"good": 1}


@law_over(("name", "others"), [("tool_called", {"tools": ["look"]}), ("step_total", {"measure": "tokens"})])
def test_checks_of_steps_take_levels(name: str, others: dict[str, object]):
    assert read_settings(find_check(name), {"levels": {"good": 1}, **others}).levels == {"good": 1}


def test_a_link_that_is_not_allowed_is_no_level():
    check = find_check("count_urls")
    settings = read_settings(check, {"levels": {"some": 1, "many": 2}, "any": ["example.org"]})
    texts = ["https://example.org", "https://example.org https://a.example.org", "https://evil.test", ""]
    found = check.function(pa.table({"output": pa.array(texts)}), settings)
    assert found.level_ids is not None
    assert found.level_ids.to_pylist() == ["some", "many", None, None]
    assert found.is_passed.to_pylist() == [True, True, False, False]
    assert "evil.test" in found.evidence.to_pylist()[2]
