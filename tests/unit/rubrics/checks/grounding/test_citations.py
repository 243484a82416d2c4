import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.grounding.citations import STYLES, cited_ids, position_of, split_at_marks
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over
from tests.support.nightly import nightly

TWO = ["Opens at 9.", "Entry is free."]


def ids_of(output: str, style: str = "brackets") -> list[str]:
    return cited_ids(split_at_marks(pa.array([output]), STYLES[style])[0], STYLES[style])


def judge(output: str, context: list[str] | None = TWO, **settings: object) -> tuple[bool | None, str | None]:
    check = find_check("citations_in_context")
    shard = pa.table({"output": [output], "context": pa.array([context], pa.list_(pa.string()))})
    found = check.function(shard, read_settings(check, settings))
    return found.is_passed[0].as_py(), found.evidence[0].as_py() or found.reasons[0].as_py()


def count(output: str, **settings: object) -> tuple[bool, str | None]:
    check = find_check("count_citations")
    found = check.function(pa.table({"output": [output]}), read_settings(check, settings))
    return found.is_passed[0].as_py(), found.evidence[0].as_py()


@law_over(
    ("output", "ids"),
    [
        ("", []),
        (" \n", []),
        ("[1]", ["1"]),
        ("a[1][2]", ["1", "2"]),
        ("[2, 3; 4]", ["2", "3", "4"]),
        ("[4-6] [4–5]", ["4", "5", "6", "4", "5"]),
        ("[6-4] [1-9999]", ["6-4", "1-9999"]),
        ("[doc-4] [^1] [Source 2] [S3]", ["doc-4", "1", "source 2", "s3"]),
        ("[Source: 2]\uff3b3\uff3d", ["source: 2", "3"]),
        ("【4†source】 【4:0†file 2.pdf】", ["4", "4:0"]),
        ("结果[1]。【2】", ["1", "2"]),
        ("[sic] [x] [10:30] [see page 3] [50%] []", []),
        ("[link](https://a.test/1) [https://a.test/1]", []),
        ("`a[1]` ```\nb[2]\n``` [3]", ["3"]),
        ("[1\n] \x00[2]\r\n", ["2"]),
        ("שלום [1] 😀[2]", ["1", "2"]),
    ],
)
def test_ids_in_brackets(output, ids):
    assert ids_of(output) == ids


@pytest.mark.parametrize(
    ("style", "output", "ids"),
    [
        ("parentheses", "a (1) b (2, 3) c (4–6) (2020) (x)", ["1", "2", "3", "4", "5", "6"]),
        ("superscripts", "a¹ b²,³ c⁴⁻⁶", ["1", "2", "3", "4", "5", "6"]),
        (
            "author_year",
            "(Smith, 2020; Lee et al., 2021) Jones (2019)",
            ["smith, 2020", "lee et al., 2021", "jones, 2019"],
        ),
        ("author_year", "(see Müller, 2001a) (in 2020) (May 3, 2020)", ["müller, 2001a"]),
        (
            "author_year",
            "(de Vries & Lee, 2020, p. 5; cf. Ng, 2019, pp. 1-2) de Vries and Lee (2020)",
            ["de vries and lee, 2020", "ng, 2019", "vries and lee, 2020"],
        ),
    ],
)
def test_ids_in_other_styles(style, output, ids):
    assert ids_of(output, style) == ids


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u202f"])
def test_spaces_of_typeset_text_are_spaces(space):
    for style, output in (
        ("brackets", "[Source 2, 3]"),
        ("parentheses", "a (1, 2)"),
        ("author_year", "(see Ng, 2019, p. 4) So Lee and Ray (2020) So Jones (2021)"),
    ):
        assert ids_of(output.replace(" ", space), style) == ids_of(output, style) != []
    assert judge(
        "Free (Ng, 2019).", [f"[Ng,{space}2019] Free."], context_pattern=r"\[(.+?)\]", style="author_year"
    ) == (True, None)


@law_over(
    ("cited", "position"), [("4", 4), ("doc-4", 4), ("4:0", 4), ("doc", None), ("9" * 5000, None), ("1-500", None)]
)
def test_the_first_whole_number_is_the_position(cited, position):
    assert position_of(cited) == position


def test_each_id_counts_or_once_when_distinct():
    assert count("[1, 2] [1]", min=3, max=3) == (True, None)
    assert count("[1, 2] [1]", min=3, is_distinct=True) == (False, "2 citations, at least 3 required")
    assert count("", max=0) == (True, None)


def test_a_pattern_of_ones_own_replaces_the_style():
    assert count("see <ref:a> and <ref:b,c>", min=3, max=3, pattern="<ref:([^>]+)>") == (True, None)
    assert count("see #12 and #13", max=1, pattern="#[0-9]+") == (False, "2 citations, at most 1 allowed")
    assert count("anything", max=0, pattern="x*") == (True, None)


@law_over(
    ("output", "settings", "expected"),
    [
        ("9 [1], free [2].", {}, (True, None)),
        ("9 [1-2]", {}, (True, None)),
        ("9 [1], free [3].", {}, (False, "found [3], the context has 2 passages")),
        ("9 [0]", {}, (False, "found [0], the context has 2 passages")),
        ("9 [0] [1]", {"count_from": 0}, (True, None)),
        ("9 [2]", {"count_from": 0}, (False, "found [2], the context has 2 passages")),
        ("[" + "9" * 5000 + "]", {}, (False, f"found [{'9' * 59}…], the context has 2 passages")),
        ("nothing", {}, (True, "no citations")),
        ("nothing", {"require": True}, (False, "no citations")),
        ("", {"require": True}, (False, "no citations")),
    ],
)
def test_an_id_is_the_position_of_a_passage(output, settings, expected):
    assert judge(output, **settings) == expected


def test_without_a_context_it_cannot_tell_and_an_empty_one_holds_nothing():
    assert judge("free [1]", None) == (None, "no context")
    assert judge("free", None) == (None, "no context")
    assert judge("free [1]", []) == (False, "found [1], the context has 0 passages")


def test_ids_may_stand_in_the_passages():
    passages = ["[Doc-4] Opens at 9.", "Entry is free. [doc-7]"]
    pattern = r"\[([^\]]+)\]"
    assert judge("It [doc-4, doc-7].", passages, context_pattern=pattern) == (True, None)
    assert judge("It [doc-5].", passages, context_pattern=pattern) == (False, "found [doc-5], not in the context")


@law_over(
    ("output", "kind", "unit"),
    [
        ("It opens at 9 [1]. It is free [2].", "sentence", None),
        ("It opens at 9.[1] It is free. [2]", "sentence", None),
        ("It opens at 9 [1]. It is free.", "sentence", "It is free."),
        ("It costs 3.50 for Dr. Smith [1].", "sentence", None),
        ("As Lee et al. [1], among others, say. [2]", "sentence", None),
        ("Lee et al. [1] found it, e.g. on Mondays.", "sentence", None),
        ("It opens at 9 a.m. on Mondays [1].", "sentence", None),
        ("It opens at 9 a.m. Entry is free [1].", "sentence", "It opens at 9 a.m."),
        ("It is free ... mostly [1].", "sentence", None),
        ("It is free.  [1] It opens. ([2])", "sentence", None),
        ("# Times\nIn short:\n- It opens [1].\n- It is free [2]", "sentence", None),
        ("- It opens [1].\n- It is free", "sentence", "- It is free"),
        ("九点开门[1]。免费。", "sentence", "免费。"),
        ("It opens. It closes [1].\n\nIt is free [2].", "paragraph", None),
        ("It opens [1].\r\n\r\nIt is free.", "paragraph", "It is free."),
        ("Nothing at all", "paragraph", "Nothing at all"),
        ("", "sentence", None),
        ("---\n\n***", "paragraph", None),
    ],
)
def test_each_sentence_or_paragraph_may_need_one(output, kind, unit):
    is_passed, evidence = judge(output, each=kind)
    assert (is_passed, evidence) == ((False, f"no citation in '{unit}'") if unit else (True, evidence))


@pytest.mark.parametrize(
    "unit", ["[1]", *nightly(["[", "[1", ".", "!", "a. ", "\n", " ", "\n \n", "`", "9", "【", "[1, ", "(A "])]
)
@law_over("each", [None, "sentence", "paragraph"])
def test_a_million_characters_are_judged(unit, each):
    output = unit * (1_000_000 // len(unit)) + "\n [7]"
    assert judge(output, each=each)[0] is False or "`" in unit


@law_over(
    ("name", "settings"),
    [
        ("count_citations", {}),
        ("count_citations", {"min": 1, "style": "harvard"}),
        ("count_citations", {"min": 1, "pattern": "("}),
        ("count_citations", {"min": 1, "pattern": "#", "style": "brackets"}),
        ("citations_in_context", {"style": "author_year"}),
        ("citations_in_context", {"each": "word"}),
        ("citations_in_context", {"count_from": 2}),
        ("citations_in_context", {"context_pattern": "(?=a)"}),
    ],
)
def test_settings_that_cannot_hold_are_refused(name, settings):
    with pytest.raises(ValidationError):
        read_settings(find_check(name), settings)


@given(st.lists(st.text(alphabet="[]1,-a. `\n\x00", max_size=12), max_size=8))
def test_rows_together_are_judged_as_alone(outputs):
    check = find_check("citations_in_context")
    read = read_settings(check, {"each": "sentence"})
    outputs_column = pa.array(outputs * 3, pa.string())
    rows = pa.table(
        {"output": outputs_column, "context": pa.array([["one"]] * len(outputs) * 3, pa.list_(pa.string()))}
    )
    together = check.function(rows, read).evidence.to_pylist()
    assert together == [judge(output, ["one"], each="sentence")[1] for output in outputs * 3]
