"""Which criterion a file means by a name."""

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.importers.ratings.grading import scales_of_rubric

LEVELS = "[{id: a, score: 0}, {id: b, score: 1}]"
TWINS = [("tone", "Tone"), ("tone_2", "Tone"), ("brevity", "Is it brief?")]
LINES = "".join(
    f"  - {{id: {each}, name: {name}, description: D, method: {{type: judge}}, levels: {LEVELS}}}\n"
    for each, name in TWINS
)
SCALES = scales_of_rubric(parse_rubric(f"id: rated\nversion: 1.0.0\ncriteria:\n{LINES}", "rubric.yaml"))


@pytest.mark.parametrize("name", ["Tone", "TONE", " tone "])
def test_a_name_that_two_criteria_have_is_none_of_them(name):
    assert SCALES.find(name) is None


@pytest.mark.parametrize(
    ("name", "found"), [("tone", "tone"), ("tone_2", "tone_2"), ("TONE_2", "tone_2"), ("is it brief?", "brevity")]
)
def test_an_id_or_a_name_of_one_criterion_is_that_one(name, found):
    assert SCALES.find(name) == found
