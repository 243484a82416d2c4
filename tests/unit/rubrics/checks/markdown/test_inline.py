import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checked import has_count, judge
from tests.support.law_over import law_over
from tests.support.nightly import nightly


@law_over(
    ("output", "count"),
    [
        ("", 0),
        ("**a**", 1),
        ("***a***, ___b___", 2),
        ("**a *b* c**, **a *b***", 2),
        ("*a* ** a ** ****", 0),
        ("**a**b**c**", 2),
        ("__a__ __b__", 2),
        ("foo__bar__baz \u4e2d__x__", 0),
        ("__init__", 1),
        ("\\*\\*a\\*\\* \\**a**", 0),
        ("**`x`**", 1),
        ("`**x**` ``a`**x**``", 0),
        ("```\n**a**\n```\n**b**", 1),
        ("**\u4e2d\u6587**\u5b57 **\u05e9\u05dc** **\U0001f600**", 3),
        ("**a\nb**", 0),
        ("**a** **b**\r\n**c**", 3),
        ("2**3", 0),
        ("**\x00**", 1),
    ],
)
def test_bold_stands_between_pairs_of_stars_or_underscores(output, count):
    assert has_count("count_bold", output, count)


@law_over(
    ("output", "count"),
    [
        ("", 0),
        ("[a](b)", 1),
        ("![a](b) ![x](https://a.b)", 0),
        ("[![a](b)](c)", 1),
        ("[https://a.b](https://a.b)", 1),
        ("https://a.b, HTTP://C.D and <https://e.f>", 3),
        ("(https://a.b)(https://c.d)", 2),
        ("WWW.a.b awww.c", 1),
        ('[a](b(c)d) [a](b "t") [a](<b c>)', 3),
        ("[a][1]\n\n[1]: https://x.y", 1),
        ("`https://a` \\[a](b) [a]\\(b) [a] (b)", 0),
        ("a@b.c https://", 0),
        ("\u89c1https://a.b\u3002", 1),
        ("```\nhttps://a.b\n```", 0),
    ],
)
def test_links_are_in_markdown_or_bare(output, count):
    assert has_count("count_links", output, count)


@law_over(
    ("output", "kind", "count"),
    [
        ("", "any", 0),
        ("- a\n* b\n+ c\n1. d\n2) e", "any", 5),
        ("- a\n1. b\n2. c", "ordered", 2),
        ("- a\n1. b\n2. c", "unordered", 1),
        ("* * *\n- - -\n---\n- - a", "unordered", 1),
        ("-\n- \n-a\n**a**\n\u2022 a\n1234567890. a\n> - a", "any", 0),
        ("- a\r\n  - b\r\n\t1. c\r\n", "any", 3),
        ("```\n- a\n```\n- b", "any", 1),
        ("- \u4e2d\n- \u05e9\n- \U0001f600\n- \x00", "any", 4),
    ],
)
def test_list_items_are_counted_by_kind(output, kind, count):
    assert has_count("count_list_items", output, count, kind=kind)


def test_a_miss_names_the_kind():
    assert judge("count_list_items", "1. a", max=0, kind="ordered")[1] == "1 ordered list item, at most 0 allowed"


@given(st.lists(st.sampled_from(["**a**", "`**b**`", "c", "*d*", "__e__", "\\*"]), max_size=8))
def test_bold_agrees_with_a_plain_reading(words):
    assert has_count("count_bold", " ".join(words), sum(word in {"**a**", "__e__"} for word in words))


@given(st.lists(st.sampled_from(["[a](b)", "![a](b)", "https://c.d", "`[e](f)`", "g", "[h]"]), max_size=8))
def test_links_agree_with_a_plain_reading(words):
    assert has_count("count_links", " ".join(words), sum(word in {"[a](b)", "https://c.d"} for word in words))


@pytest.mark.parametrize(
    "sign", ["[", *nightly(["[](", "[a]((", "![a", "](", "**a*", "** ", "_", "__a ", "`", "`a``", "\\", "(", "[("])]
)
@law_over("name", ["count_bold", "count_links"])
def test_a_megabyte_of_open_signs_holds_none(name, sign):
    # __a __a ...: each second pair is behind whitespace, so none closes
    assert judge(name, sign * (1_000_000 // len(sign)), min=1_000_000)[0] is False
