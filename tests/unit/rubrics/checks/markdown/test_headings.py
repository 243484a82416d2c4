import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.markdown.elements import find_titles
from gradebook.rubrics.checks.registry import find_check
from tests.support.checked import has_count, judge
from tests.support.law_over import law_over


@law_over(
    ("output", "count"),
    [
        ("", 0),
        ("# a", 1),
        ("#", 1),
        ("#a\n#hashtag", 0),
        ("####### seven", 0),
        ("   # x\n    # code", 1),
        ("# a # b ##\r\n## c\r\n", 2),
        ("a\n===\nb\n---", 2),
        ("a\n\n---\n\n---", 0),
        ("- a\n---\n1. x\n---\n> q\n---\n| t |\n---", 0),
        ("2024 was\n---\n**b**\n---\n-5 degrees\n---", 3),
        ("```\n# comment\na\n---\n```\n# b", 1),
        ("```\n# never closed", 0),
        ("> # quoted", 0),
        ("# \u6982\u8981\n# \u05e9\u05dc\u05d5\u05dd\n# \U0001f600", 3),
        ("\x00# a", 0),
    ],
)
def test_headings_are_hashes_or_underlined(output, count):
    assert has_count("count_headings", output, count)


def test_headings_are_counted_by_level():
    output = "# a\n## b\n### c\nd\n===\ne\n---"
    counts = [has_count("count_headings", output, count, levels=[level]) for level, count in ((1, 2), (2, 2), (3, 1))]
    assert counts == [True, True, True]


@law_over(
    ("output", "title", "is_found"),
    [
        ("## 2. **Summary**:", "Summary", True),
        ("## Summary of it", "Summary", False),
        ("## \U0001f4cc Summary ##", "summary", True),
        ("## 1\ufe0f\u20e3 Summary", "summary", True),
        ("## 1.2 Scope", "scope", True),
        ("# 1. Intro", "1. Intro", True),
        ("# C++", "C", False),
        ("# Cafe\u0301", "Cafe", False),
        ("# R\u00c9SUM\u00c9", "r\u00e9sum\u00e9", True),
        ("# \u6982\u8981\uff1a", "\u6982\u8981", True),
        ("# \u0645\u0644\u062e\u0635\r\n", "\u0645\u0644\u062e\u0635", True),
        ("Summary\n---", "summary", True),
        ("Summary", "summary", False),
        ("# a.b", "a+b", False),
        ("```\n# Summary\n```", "Summary", False),
        ("", "Summary", False),
    ],
)
def test_a_heading_is_the_title_as_a_whole(output, title, is_found):
    assert judge("has_sections", output, any=[title])[0] is is_found


@law_over(
    ("output", "is_found"),
    [
        ("Summary: all is well", True),
        ("**Summary**", True),
        ("**Summary**: all is well", True),
        ("- **Summary:** all is well", True),
        ("__Summary__\r", True),
        ("1. Summary: x", True),
        ("SUMMARY\uff1ax", True),
        ("Summary", False),
        ("Summary of it: x", False),
        ("**Summary** is", False),
        ("# Summary", False),
        ("In Summary: x", False),
        ("~~~\nSummary: x\n~~~", False),
    ],
)
def test_a_label_has_a_colon_or_is_bold_alone(output, is_found):
    assert judge("has_sections", output, any=["Summary"], kind="label")[0] is is_found


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("# A\n# x\n# B", (True, None)),
        ("# B\n# A\n# B", (True, None)),
        ("# B\n# A", (False, "'B' does not stand below 'A'")),
        ("# B", (False, "missing 'A'")),
        ("", (False, "missing 'A', 'B'")),
    ],
)
def test_sections_in_order_stand_below_one_another(output, expected):
    assert judge("has_sections", output, all=["A", "B"], in_order=True) == expected


def test_the_level_and_the_case_can_be_asked_for():
    assert judge("has_sections", "# a\n## b", all=["b"], level=2) == (True, None)
    assert judge("has_sections", "# a\n## b", all=["b"], level=1) == (False, "missing 'b'")
    assert judge("has_sections", "# a", any=["A", "b"], case_sensitive=True) == (False, "found none of 'A', 'b'")
    assert judge("has_sections", "a: x\n# b", any=["a", "b"], kind="any") == (True, "found 'a', 'b'")


@given(st.lists(st.sampled_from(["# a", "## b", "text", "", "#c", "####### d", "   ### e", "    # f"]), max_size=9))
def test_headings_agree_with_a_plain_reading(lines):
    count = sum(line in {"# a", "## b", "   ### e"} for line in lines)
    assert has_count("count_headings", "\n".join(lines), count)


@law_over("sign", ["#", "# ", "# a\n", "a\n=\n", "\n", " ", "-\n", "*", "1.", ":"])
def test_a_megabyte_of_signs_holds_no_summary(sign):
    output = sign * (1_000_000 // len(sign))
    assert judge("has_sections", output, all=["Summary"], kind="any") == (False, "missing 'Summary'")


@law_over(
    "given",
    [
        {},
        {"any": ["a"], "all": ["b"]},
        {"any": ["a"], "in_order": True},
        {"all": ["a"], "level": 2, "kind": "label"},
        {"all": ["a"], "level": 7},
        {"all": [" "]},
        {"all": ["a\nb"]},
        {"all": ["a" * 10_001]},
    ],
)
def test_settings_of_sections_that_make_no_sense_are_refused(given):
    with pytest.raises(ValidationError):
        read_settings(find_check("has_sections"), given)


def test_titles_are_found_in_many_lines_as_in_few():
    titles = ["Summary", "summary", "1. Risks", "Risks", "a", "A b"]
    lines = pa.array(
        [f"{before}{title}{after}" for title in titles for before in ("", "2. ", "x") for after in ("", "**")]
    )
    many = pa.concat_arrays([lines] * 60)
    few, found = (find_titles(texts, titles, "(?i)^(?:[0-9]+[.] )?", "[*]*$") for texts in (lines, many))
    assert [(places[: len(alone)].tolist(), len(places)) for alone, places in zip(few, found, strict=True)] == [
        (alone.tolist(), 60 * len(alone)) for alone in few
    ]
    assert all(len(alone) for alone in few)
