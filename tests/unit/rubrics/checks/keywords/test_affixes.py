import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.checked import judge
from tests.support.law_over import law_over


@law_over(
    ("name", "output", "expected"),
    [
        ("starts_with", "Yes, it is", (True, None)),
        ("starts_with", "\u3000\r\n No", (True, None)),
        ("starts_with", "yes", (False, "starts with 'yes'")),
        ("starts_with", "", (False, "starts with ''")),
        ("starts_with", " Ye", (False, "starts with 'Ye'")),
        ("ends_with", "I say No\n\x85", (True, None)),
        ("ends_with", "Yes.", (False, "ends with 'Yes.'")),
        ("ends_with", "", (False, "ends with ''")),
    ],
)
def test_one_of_the_texts_stands_at_the_edge(name, output, expected):
    assert judge(name, output, any=["Yes", "No"]) == expected


@pytest.mark.parametrize(("name", "output"), [("starts_with", "ÉTÉ là"), ("ends_with", "là, ÉTÉ")])
def test_case_counts_unless_asked(name, output):
    assert not judge(name, output, any=["été"])[0]
    assert judge(name, output, any=["été"], case_sensitive=False)[0]


@pytest.mark.parametrize(("name", "output"), [("starts_with", " a"), ("ends_with", "a ")])
def test_whitespace_counts_without_strip(name, output):
    assert not judge(name, output, any=["a"], strip=False)[0]
    assert judge(name, output, any=[output], strip=False)[0]


def test_a_text_is_no_pattern_without_case_either():
    assert not judge("starts_with", "abc", any=["A.C"], case_sensitive=False)[0]


@pytest.mark.parametrize(("name", "text"), [("starts_with", " a"), ("ends_with", "a\n")])
def test_a_text_that_stripping_makes_hopeless_is_refused(name, text):
    with pytest.raises(ValidationError, match="with strip: true"):
        read_settings(find_check(name), {"any": [text]})


@pytest.mark.parametrize(("name", "text"), [("starts_with", "a "), ("ends_with", "\na")])
def test_whitespace_on_the_inner_side_is_welcome(name, text):
    assert judge(name, "a \na", any=[text])[0]


@pytest.mark.parametrize("settings", [{}, {"any": []}, {"any": [""]}, {"any": ["a"], "all": ["b"]}], ids=str)
def test_settings_without_texts_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("starts_with"), settings)


@pytest.mark.parametrize("name", ["starts_with", "ends_with"])
def test_a_million_characters_show_sixty(name):
    # the verb, two quotes and 60 characters
    verb = name.replace("_", " ")
    assert judge(name, "é" * 1_000_000, any=["x"]) == (False, f"{verb} '" + "é" * 60 + "'")
