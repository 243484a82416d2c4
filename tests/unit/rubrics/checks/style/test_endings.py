import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.checks.style.endings import LEAST_ROWS_TO_TELL
from tests.support.law_over import law_over


def judge(outputs: list[str]) -> tuple[list[bool], list[str | None]]:
    check = find_check("is_complete")
    found = check.function(pa.table({"output": pa.array(outputs, pa.string())}), read_settings(check, {}))
    return found.is_passed.to_pylist(), found.evidence.to_pylist()


@law_over(
    "output",
    [
        "Done.",
        "Done!  \r\n",
        'He said: "Stop."',
        "It works (mostly).",
        "**Done.**",
        "Paris",
        "42",
        "The answer is 42",
        "Title of a Text That Has No Mark at Its End",
        "Thanks a lot. Kind regards,\nAda Lovelace",
        "Best regards,",
        "All is well. Bye for now",
        "- one\n- two",
        "1. Use Python. It is a language that many people know\n2. Rest",
        "Intro.\n\n3. Third item, with a few more words in it",
        "See https://example.org/path",
        "Great day. Let us all go to the beach #sun #fun",
        "So happy for you 🎉",
        "I am sad :(",
        "```py\nx = 1\n```",
        "````md\n```\n````",
        '{"a": [1, 2]}',
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "4.",
        "He is 6' 2\" tall",
        'A text:\n"Dear Ada,\n\nBye\n[Your Name]"',
        "select * from t where a = 1;",
        "これは文です。",
        "你好",
        "هل أنت بخير؟",
        "Er sagte: „Ich komme.“",
        "Das Wort heißt „Hund“",
        "»Ich komme«",
        "Il a dit « oui »",
        "All x in [0, 1)",
        "I am sad :( but fine",
        "「終わり」",
        "ภาษาไทยไม่มีจุด",
        "Written by Dr. Ada Lovelace of London town",
        "<think>Hm.</think>Yes.",
        "\x00",
    ],
)
def test_a_whole_text_passes(output):
    assert judge([output]) == ([True], [None])


@law_over(
    ("output", "fault"),
    [
        ("", "the output is empty"),
        (" \n\u3000", "the output is empty"),
        ("First of all we saw,", "ends with a comma"),
        ("- apples, pears,", "ends with a comma"),
        ("The steps are:", "ends with a colon"),
        ("So we go on —", "ends with a dash"),
        ("def f(", "ends with an open bracket"),
        ("The first of the", "ends on 'the'"),
        ("- the rest and", "ends on 'and'"),
        ("It is late. We should all go home now", "the last sentence has no end"),
        ("这是第一句。这是第二句没有结束", "the last sentence has no end"),
        ("One. Two.\n\nThe system that we described above uses several parts", "the last line has no end"),
        ("Use this (the newer one of them", "an open bracket"),
        ('He said "this is what I was', "an open quote"),
        ("「こんにちは", "an open quote"),
        ("« ", "ends with an open quote"),
        ("He said “", "ends with an open quote"),
        ("A set {1, 2", "an open bracket"),
        ("見てください\uff08これは", "an open bracket"),
        ("```py\nx = 1.", "an open code fence"),
        ("~~~\n```\nx", "an open code fence"),
        ("<think>Let me see.", "an open <think>"),
        ('{"a": "Hello.', "an open {"),
        ('[{"a": 1}, {"b": 2}', "an open ["),
        ("1. One\n2. Two\n3.", "a bare bullet"),
        ("- one\n-", "a bare bullet"),
        ("| a | b |\n|---|---|\n| 1 | and so", "half a table row"),
    ],
)
def test_a_text_that_breaks_off_fails_and_says_how(output, fault):
    passed, evidence = judge([output])
    assert passed == [False]
    assert evidence[0].partition(": ")[0] == fault


def test_the_evidence_quotes_the_ending():
    # 60 characters of the end
    assert judge(["x" * 70 + ","])[1] == ["ends with a comma: '…" + "x" * 59 + ",'"]


@law_over(
    ("text", "is_passed"),
    [
        ("a" * 10**6, True),
        (" " * 10**6, False),
        ("\n" * 10**6 + "x", True),
        ("(" * 10**6, False),
        ("```\n" * 250_000, True),
        (" " * 10**6 + "```", False),
        ("[" * 500_000 + "]" * 500_000, True),
        ("." * 10**6, True),
        ('"' * (10**6 - 1), True),
        ("1" * 10**6 + ".", True),
    ],
)
def test_a_hostile_text_gets_a_verdict(text, is_passed):
    assert judge([text])[0] == [is_passed]


PIECES = [
    ".",
    "3.",
    "\n",
    " ",
    "- ",
    "word",
    "the",
    "(",
    ")",
    "|",
    '"',
    "```",
    "{",
    "[",
    "\u3000",
    "。",
    ":",
    "*",
    "<think>",
]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), min_size=1, max_size=6))
def test_many_rows_have_the_verdicts_of_each_alone(outputs):
    many = (outputs * LEAST_ROWS_TO_TELL)[: LEAST_ROWS_TO_TELL + len(outputs)]
    assert judge(many)[0][: len(outputs)] == [judge([output])[0][0] for output in outputs]
