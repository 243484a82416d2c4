"""Settings of the instructions that are refused before anything runs."""

import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over

REFUSED = [
    ("keywords:existence", {"keywords": []}, "at least 1 item"),
    ("keywords:existence", {"keywords": ["C++"]}, "expected a regular expression that RE2 accepts"),
    ("keywords:existence", {"keywords": [""]}, "which the empty text matches"),
    ("keywords:existence", {}, "Field required"),
    ("keywords:frequency", {"keyword": " ", "frequency": 1, "relation": "at least"}, "which the empty text matches"),
    ("keywords:frequency", {"keyword": "a*", "frequency": 1, "relation": "at least"}, "which the empty text matches"),
    ("keywords:frequency", {"keyword": "a", "frequency": -1, "relation": "at least"}, "greater than or equal to 0"),
    ("keywords:frequency", {"keyword": "a", "frequency": 1, "relation": "at most"}, "'less than' or 'at least'"),
    ("keywords:frequency", {"keyword": "a", "frequency": 1}, "Field required"),
    ("keywords:forbidden_words", {"forbidden_words": ["(a"]}, "expected a regular expression that RE2 accepts"),
    ("keywords:letter_frequency", {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "one character"),
    ("keywords:letter_frequency", {"letter": " ", "let_frequency": 1, "let_relation": "at least"}, "one character"),
    ("language:response_language", {"language": "german"}, "found the language 'german', expected de"),
    ("language:response_language", {"language": "zz"}, "expected one of ar, bg, bn"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
        "at most 2",
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 0, "first_word": "a"},
        "greater than or equal to 1",
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "a b"},
        "expected one word",
    ),
    ("length_constraints:number_words", {"num_words": 1.5, "relation": "at least"}, "valid integer"),
    ("detectable_content:postscript", {"postscript_marker": " "}, "which the empty text matches"),
    ("combination:repeat_prompt", {"prompt_to_repeat": " "}, "at least 1 character"),
    ("startend:end_checker", {"end_phrase": ""}, "at least 1 character"),
    ("punctuation:no_comma", {"num_words": 1}, "Extra inputs are not permitted"),
]


@law_over(("name", "settings", "message"), REFUSED)
def test_settings_that_no_output_could_be_judged_by_are_refused(name, settings, message):
    with pytest.raises(ValidationError, match=message):
        read_settings(find_check(name), settings)
