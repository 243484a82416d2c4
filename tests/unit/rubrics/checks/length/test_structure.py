from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.support.checked import has_count
from tests.support.law_over import law_over

ENDS = ".!?…。\uff01\uff1f"


@law_over(
    ("output", "count"),
    [
        ("", 0),
        ("?!...", 0),
        ("No end", 1),
        ("One. Two! Three?", 3),
        ("Wait?! What...", 2),
        ("Well… yes", 2),
        ("你好。再见\uff01好吗\uff1f", 3),
        ("line\nline.\r\nline", 2),
        ("3.14", 2),  # no language is known, so no decimal point either
        ("😀. a", 1),
        ("مرحبا. نعم", 2),
    ],
)
def test_sentences_are_runs_that_hold_a_letter_or_a_number(output, count):
    assert has_count("count_sentences", output, count)


@law_over(
    ("output", "count"),
    [
        ("", 0),
        (" \n\n \n", 0),
        ("one", 1),
        ("one\nstill one", 1),
        ("one\n\ntwo", 2),
        ("one\r\n\r\ntwo\r\nstill two", 2),
        ("one\n \t\u3000\ntwo", 2),
        ("\n\n one\n\n\n\ntwo\n\n", 2),
        ("a\n\nb\n\nc\nd\n\ne", 4),
    ],
)
def test_paragraphs_are_blocks_between_blank_lines(output, count):
    assert has_count("count_paragraphs", output, count)


@law_over(
    ("output", "count"),
    [
        ("", 0),
        ("- one\n* two\n• three\n+ four", 4),
        ("1. one\r\n  12) two\n\t- three", 3),
        ("- - x", 1),
        ("- \n- ", 2),
        ("-5 degrees\n**bold**\n---\n1.5 litres\na - b", 0),
        ("text\n\n- one\n\n\n- two", 2),
        ("-\u00a0one", 0),
    ],
)
def test_bullets_are_lines_with_a_mark_and_a_space(output, count):
    assert has_count("count_bullets", output, count)


@given(st.text(alphabet=["a", "é", "中", "1", " ", "\n", "\u2028", "\x85", *ENDS], max_size=40))
def test_sentences_agree_with_a_plain_reading(text):
    for end in ENDS:
        text = text.replace(end, ".")
    assert has_count("count_sentences", text, sum(any(map(str.isalnum, run)) for run in text.split(".")))


@given(st.text(alphabet=["a", " ", "\t", "\n", "\r", "\u3000", "\x85", "-"], max_size=40))
def test_paragraphs_agree_with_a_plain_reading(text):
    has_text = [False, *(bool(line.strip()) for line in text.split("\n"))]
    starts = sum(here and not before for before, here in pairwise(has_text))
    assert has_count("count_paragraphs", text, starts)


@given(st.lists(st.sampled_from(["- a", "* - b", "1. ", " 2) c", "-d", "", "e - f", "\r", "+ - - g"]), max_size=9))
def test_bullets_agree_with_a_plain_reading(lines):
    count = sum(line.strip(" ")[:1] in ("-", "*", "1", "2", "+") and line != "-d" for line in lines)
    assert has_count("count_bullets", "\n".join(lines), count)


def test_a_million_blank_lines_hold_no_paragraph():
    assert has_count("count_paragraphs", "\n" * 1_000_000, 0)
