"""What each instruction makes of an output, with the edge cases of its own."""

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.grading import run_check
from gradebook.rubrics.checks.ifeval import keywords
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over

CASES = [
    ("keywords:existence", {"keywords": ["dog", "day"]}, "YESTERDAY a dogma", True),
    ("keywords:existence", {"keywords": ["É"]}, "café", True),
    ("keywords:existence", {"keywords": ["e.g."]}, "eggs", True),  # a pattern, as in IFEval
    ("keywords:existence", {"keywords": [r"C\+\+"]}, "c++ and c", True),
    ("keywords:existence", {"keywords": ["猫"]}, "黒猫です", True),
    ("keywords:existence", {"keywords": [" "]}, "  \n ", False),  # blank
    ("keywords:frequency", {"keyword": "ana", "frequency": 1, "relation": "at least"}, "Banana", True),
    ("keywords:frequency", {"keyword": "ana", "frequency": 2, "relation": "at least"}, "banana", False),
    ("keywords:frequency", {"keyword": "a|b", "frequency": 3, "relation": "at least"}, "aXB b", True),
    ("keywords:frequency", {"keyword": "x", "frequency": 1, "relation": "less than"}, "abc", True),
    ("keywords:frequency", {"keyword": "x", "frequency": 1, "relation": "less than"}, "", False),
    ("keywords:forbidden_words", {"forbidden_words": ["can"]}, "I can't", False),
    ("keywords:forbidden_words", {"forbidden_words": ["can"]}, "canyon pecan can_do", True),
    ("keywords:forbidden_words", {"forbidden_words": ["caf"]}, "café", True),
    ("keywords:forbidden_words", {"forbidden_words": ["c.f"]}, "café", True),
    ("keywords:forbidden_words", {"forbidden_words": ["c.f"]}, "é caf é", False),
    ("keywords:forbidden_words", {"forbidden_words": ["été"]}, "L'ÉTÉ.", False),
    ("keywords:forbidden_words", {"forbidden_words": ["ab"]}, "abab ab", False),
    ("keywords:forbidden_words", {"forbidden_words": ["ok"]}, "👍ok👍", False),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"}, "#a\n#b", True),
    ("keywords:letter_frequency", {"letter": "!", "let_frequency": 1, "let_relation": "less than"}, "No!", False),
    ("keywords:letter_frequency", {"letter": "É", "let_frequency": 2, "let_relation": "at least"}, "é É e", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a***b", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***\na\n***\r\nb\n***\n", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a******b", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 1}, "a\n\nb", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 0}, "***", True),
    ("length_constraints:number_words", {"num_words": 2, "relation": "at least"}, "don't", True),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "don't", False),
    ("length_constraints:number_words", {"num_words": 2, "relation": "less than"}, "我喜欢苹果", True),
    ("length_constraints:number_words", {"num_words": 2, "relation": "less than"}, "我\uff0c你", False),
    ("length_constraints:number_words", {"num_words": 1, "relation": "less than"}, "👍 — ...", True),
    ("length_constraints:number_words", {"num_words": 1, "relation": "less than"}, " \r\n\t", False),
    ("length_constraints:number_words", {"num_words": 2, "relation": "at least"}, "a\x00b", True),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[]", True),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a [b]]", False),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[a\nb]", False),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[open\n[a] x]] [ب]", True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "p.\u00a0s. x", True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "P.  S. x", False),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "P. P.S: x", True),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "P.S. x", False),
    ("detectable_content:postscript", {"postscript_marker": "NB:"}, "nb: x", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 3}, "* a\n\n\t*b\r\n  - c", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 0}, "**a**\n+ b\n1. c\n*", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "---", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "*\n* a", True),  # the first takes the next line in
    ("detectable_format:constrained_response", {}, "So: My answer is no. Really", True),
    ("detectable_format:constrained_response", {}, "my answer is no.", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "**a**", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "**a**", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "* a *b* c", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "* a *b* c", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "*a\nb* ** * * ****", False),
    ("detectable_format:multiple_sections", {"section_spliter": "Day", "num_sections": 2}, "Day1 Day  2 Day\n3", True),
    ("detectable_format:multiple_sections", {"section_spliter": "Day", "num_sections": 1}, "day 1", False),
    ("detectable_format:multiple_sections", {"section_spliter": "Day", "num_sections": 1}, "Day ٣", True),
    ("detectable_format:multiple_sections", {"section_spliter": "--", "num_sections": 1}, "--- 1", True),
    ("detectable_format:multiple_sections", {"section_spliter": "(?i)day", "num_sections": 2}, "day 1 DAY 2", True),
    ("detectable_format:json_format", {}, " ```JSON\n[1]\n``` \n", True),
    ("detectable_format:json_format", {}, "7", True),
    ("detectable_format:json_format", {}, "```python\n[1]\n```", False),
    ("detectable_format:json_format", {}, '{"a": 1} and more', False),
    ("detectable_format:json_format", {}, "", False),
    ("detectable_format:title", {}, "a <<b>> c", True),
    ("detectable_format:title", {}, "<<\nb>>", False),
    ("detectable_format:title", {}, "<<>>>", False),
    ("detectable_format:title", {}, ">> << x", False),
    ("combination:two_responses", {}, "******\na\n******\nb\n******", True),
    ("combination:two_responses", {}, "a ****** b ****** c", False),
    ("combination:two_responses", {}, "a", False),
    ("combination:two_responses", {}, "a ****** a ", False),
    ("combination:repeat_prompt", {"prompt_to_repeat": " Wie geht's? "}, "\nWIE GEHT'S?", True),
    ("combination:repeat_prompt", {"prompt_to_repeat": "a b"}, "a\nb", False),
    ("startend:end_checker", {"end_phrase": "Peace!"}, 'x peace!"" \n', True),
    ("startend:end_checker", {"end_phrase": "Peace!"}, "peace! :)", False),
    ("startend:quotation", {}, '"', False),
    ("startend:quotation", {}, ' ""\r\n', True),
    ("startend:quotation", {}, "'a'", False),
    ("change_case:english_capital", {}, "THE WEATHER IS FINE TODAY, 20 DEGREES.", True),
    ("change_case:english_capital", {}, "DAS WETTER IST HEUTE SCHÖN UND WARM.", False),
    ("change_case:english_capital", {}, "123", False),
    ("change_case:english_capital", {}, "YES", None),
    ("change_case:english_lowercase", {}, "the weather is fine today, 20 degrees.", True),
    ("change_case:english_lowercase", {}, "我喜欢吃苹果。", False),
    ("punctuation:no_comma", {}, "一、二\uff0c三", True),
    ("punctuation:no_comma", {}, "1,000", False),
    ("punctuation:no_comma", {}, "\n", False),
]
WORD_COUNTS = [
    ("NASA's IT'S DON'T", 5),  # NASA, IT, 'S, DO, N'T
    ("I'm I’ll CANNOT", 4),  # I, I, CAN, NOT
    ("COVID-19 A/B U.S. 3D 42 x-RAY", 4),
    ("ONE,TWO 1,000 THREE:FOUR (FIVE)--SIX...SEVEN", 7),
    ("שלום 中文 é É", 1),
]
FIRST_WORDS = [
    ("one\n\n'Two' x", True),
    ("one\n\nTWO, x", True),
    ('one\n\n"two', True),
    ("one\n\ntwofold", False),
    ("one\n\n\n\ntwo", False),  # the second is blank
    ("one\n\ntwo\n\nthree", False),
    ("one\ntwo", False),
    ("one\r\n\r\ntwo", False),
    ("one\n\n, two", False),
]


def verdict(name: str, settings: dict[str, Any], output: str) -> bool | None:
    check = find_check(name)
    return check.function(pa.table({"output": [output]}), read_settings(check, settings)).is_passed[0].as_py()


@law_over(("name", "settings", "output", "is_passed"), CASES)
def test_an_instruction_is_followed_or_not(name, settings, output, is_passed):
    assert verdict(name, settings, output) is is_passed


@pytest.mark.parametrize(("output", "count"), WORD_COUNTS)
def test_words_in_capital_letters_are_counted_as_tokens(output, count):
    name = "change_case:capital_word_frequency"
    bounds = [{"capital_frequency": count + more, "capital_relation": "at least"} for more in (0, 1)]
    assert [verdict(name, bound, output) for bound in bounds] == [True, False]


@law_over(("output", "is_passed"), FIRST_WORDS)
def test_the_second_of_two_paragraphs_starts_with_the_word(output, is_passed):
    settings = {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Two"}
    assert verdict("length_constraints:nth_paragraph_first_word", settings, output) is is_passed


@law_over(
    ("language", "output", "is_passed"),
    [
        ("ja", "空が青いのは、空気が青い光を散らすからです。", True),
        ("th", "ท้องฟ้าเป็นสีฟ้าเพราะอากาศกระเจิงแสง", True),
        ("he", "השמיים כחולים כי האוויר מפזר את האור.", True),
        ("fr", "Le ciel est bleu parce que l'air diffuse la lumière.", True),
        ("es", "Le ciel est bleu parce que l'air diffuse la lumière.", False),
        ("fr", "12 + 30 = 42 👍", None),
        ("fr", " \n", False),
        ("en", "Hello, World Cup!", None),
    ],
)
def test_the_language_of_a_response_is_told_or_not(language, output, is_passed):
    assert verdict("language:response_language", {"language": language}, output) is is_passed


def test_langdetect_decides_short_outputs_as_ifeval_does(monkeypatch: pytest.MonkeyPatch):
    language = find_check("language:response_language")
    monkeypatch.setattr(keywords, "has_langdetect", lambda: False)
    with pytest.raises(ValidationError, match="found no package langdetect"):
        read_settings(language, {"language": "de", "detector": "langdetect"})
    monkeypatch.undo()
    pytest.importorskip("langdetect")
    german = read_settings(language, {"language": "de", "detector": "langdetect"})
    # nothing to detect counts as followed; "Hi" is Dutch to langdetect; a blank output follows nothing
    texts = ["1, 2, 3", "Hi", "Der Himmel ist blau.", " "]
    found = run_check(language, pa.table({"output": texts}), german).is_passed.to_pylist()
    assert found == [True, False, True, False]
