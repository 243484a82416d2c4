"""The counts that are taken in a fast way, against the patterns that IFEval describes them by."""

import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check

TEXTS = st.text(alphabet="aB1 \n\t*-[]<>.é_\r", max_size=40).filter(str.strip)
SLOW = {
    "detectable_format:number_bullet_lists": (
        "num_bullets",
        lambda t: sum(len(re.findall(p, t, re.MULTILINE)) for p in (r"^\s*\*[^\*].*$", r"^\s*-.*$")),
    ),
    "detectable_content:number_placeholders": ("num_placeholders", lambda t: len(re.findall(r"\[.*?\]", t))),
    "length_constraints:number_words": ("num_words", lambda t: len(re.findall(r"\w+", t))),
    "detectable_format:number_highlighted_sections": (
        "num_highlights",
        lambda t: sum(
            bool(found.strip("*").strip())
            for pattern in (r"\*[^\n\*]*\*", r"\*\*[^\n\*]*\*\*")
            for found in re.findall(pattern, t)
        ),
    ),
}


def is_followed(name, given, text):
    check = find_check(name)
    return check.function(pa.table({"output": [text]}), read_settings(check, given)).is_passed[0].as_py()


@given(TEXTS)
def test_counts_equal_those_of_the_plain_patterns(text):
    for name, (key, count) in SLOW.items():
        more = {"relation": "at least"} if key == "num_words" else {}
        assert is_followed(name, {key: count(text), **more}, text), name
        assert not is_followed(name, {key: count(text) + 1, **more}, text), name


@given(TEXTS)
def test_a_title_is_found_where_the_plain_pattern_finds_one(text):
    titles = re.findall(r"<<[^\n]+>>", text)
    assert is_followed("detectable_format:title", {}, text) == any(t.lstrip("<").rstrip(">").strip() for t in titles)


@given(TEXTS, st.text(alphabet="aB1é_", min_size=1, max_size=2))
def test_a_forbidden_word_is_found_where_the_plain_pattern_finds_it(text, word):
    is_found = re.search(rf"\b{word}\b", text, re.IGNORECASE) is not None
    for written in (word, f"(?:{word})"):  # as a word and as a pattern
        assert is_followed("keywords:forbidden_words", {"forbidden_words": [written]}, text) is not is_found


@given(TEXTS)
def test_paragraphs_are_divided_as_the_plain_pattern_does(text):
    parts = [bool(part.strip()) for part in re.split(r"\s?\*\*\*\s?", text)]
    expected = all(parts[1:-1])
    found = is_followed("length_constraints:number_paragraphs", {"num_paragraphs": sum(parts)}, text)
    assert found is expected


@given(TEXTS, st.text(alphabet="aB1-", min_size=1, max_size=2))
def test_sections_are_those_that_the_plain_pattern_divides(text, word):
    count = len(re.split(rf"\s?{word}\s?\d+\s?", text)) - 1
    for written in (word, f"(?:{word})"):  # as a word and as a pattern
        for more in (0, 1):
            given = {"section_spliter": written, "num_sections": count + more}
            assert is_followed("detectable_format:multiple_sections", given, text) is (more == 0)
