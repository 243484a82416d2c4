import unicodedata

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.check_kit.normalising import fold_whitespace
from gradebook.rubrics.check_kit.regexes import WIDE_GAP, gap_class, whitespace_class
from gradebook.rubrics.checks.answers.sequences import split_spaced

COMMON = [
    point
    for first, last in ((0, 0x24F), (0x370, 0x52F), (0x2000, 0x2BFF), (0x3000, 0x30FF), (0xFF00, 0xFFEF))
    for point in range(first, last + 1)
]


def test_the_short_class_holds_what_the_full_one_does():
    texts = pa.array([chr(point) for point in COMMON if unicodedata.category(chr(point)) != "Cn"])
    short, full = (pc.match_substring_regex(texts, f"[{inside}]") for inside in (gap_class(texts), WIDE_GAP))
    assert texts.filter(pc.not_equal(short, full)).to_pylist() == []


@pytest.mark.parametrize(("text", "is_full"), [("a b", False), ("“Привет”, 中文 😀", False), ("नमस्ते।", True)])
def test_rare_scripts_ask_for_the_full_class(text, is_full):
    assert (gap_class(pa.array([text])) == WIDE_GAP) is is_full


@given(st.text(max_size=20))
def test_whitespace_is_what_split_splits_at(text):
    texts = pa.array([text])
    bare = pc.replace_substring_regex(texts, f"[{whitespace_class(texts)}]", "")
    assert bare.to_pylist() == ["".join(text.split())]


@given(st.lists(st.text("ab_.é中 \t\x0b\x1c\x85\u3000\r\n\x00", max_size=12), min_size=1))
def test_words_and_folded_whitespace_are_those_of_split(texts):
    column, words = pa.array(texts), [text.split() for text in texts]
    assert fold_whitespace(column).to_pylist() == [" ".join(each) for each in words]
    split, all_words = split_spaced(column), [word for each in words for word in each]
    assert split.lengths.tolist() == [len(each) for each in words]
    pairs = set(zip(split.ids.tolist(), all_words, strict=True))
    assert len(pairs) == len(set(split.ids.tolist())) == len(set(all_words))  # one number for each distinct word
