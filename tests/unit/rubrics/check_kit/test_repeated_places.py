"""Cost of patterns, counted before they search: RE2 searches some of them without its automaton."""

import pytest

from gradebook.rubrics.check_kit.regexes import repeated_places


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("abc", 0),
        ("a+b*c?", 3),
        (r"\d{4}-\d{2}", 6),
        ("[a-z]{1,1000}y", 1_000),
        ("(?:a|b){10}", 20),
        ("(?P<n>ab){8}", 16),
        ("(?i)abc{3}", 3),
        ("[)(]{4}", 4),
        ("[[:alpha:]]{7}", 7),
        (r"\Q(((\E{3}", 3),
        ("(.?){600}y", 1_200),
        ("(.{1,31}){1,31}y", 1_922),
        ("((.?){5}){105}", 2_100),
        (".{0,300}" * 4, 1_200),
        (")", 0),
        ("x" * 2_001, 2_001),
    ],
)
def test_places_are_those_of_the_repeats(pattern: str, expected: int):
    assert repeated_places(pattern) == expected
