import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.checks.length import blocks
from gradebook.rubrics.checks.length.blocks import count_before, text_blocks
from gradebook.rubrics.checks.length.lengths import count_words
from gradebook.rubrics.checks.length.structure import tally_sentences

ENDS = ".!?…。\uff01\uff1f"
# Letters and others that share their first byte, and neighbours of the wide ends.
ALPHABET = ["a", "1", "_", " ", "\0", "\x80", "²", "Ⅷ", "\u0301", "ก", "й", "א", "中", "䷀", "한", "—", "‥", "、", "🎉"]


@given(st.lists(st.booleans(), max_size=200), st.data())
def test_marks_before_each_place_are_counted(marks, data):
    places = data.draw(st.lists(st.integers(0, len(marks)), min_size=1, max_size=5))
    found = count_before(np.array(marks, np.bool_), np.array(places))
    assert found.tolist() == [sum(marks[:place]) for place in places]


@given(st.lists(st.text(alphabet=[*ALPHABET, *ENDS], max_size=20), max_size=8), st.booleans())
def test_sentences_in_a_slice_agree_with_a_plain_reading(texts, is_large):
    column = pa.array(["é one.", *texts], pa.large_string() if is_large else pa.string()).slice(1)
    assert tally_sentences(column).to_pylist() == [plain_sentences(text) for text in texts]


def plain_sentences(text: str) -> int:
    for end in ENDS:
        text = text.replace(end, ".")
    return sum(any(map(str.isalnum, run)) for run in text.split("."))


@pytest.mark.parametrize("size", [1, 7, 64])
def test_the_size_of_a_block_changes_no_count(size, monkeypatch):
    texts = ["", "中 a. b", "", "— … ?", "x" * 100, "é\u3000é。"]
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    assert [rows for rows, _, _ in text_blocks(pa.array(texts))][-1].stop == len(texts)
    assert count_words(pa.array(texts)).to_pylist() == [0, 3, 0, 3, 1, 2]
    assert tally_sentences(pa.array(texts)).to_pylist() == [0, 2, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "count"),
    [("—." * 250_000, 0), ("。" * 330_000, 0), ("中。" * 160_000, 160_000), (".a" * 500_000, 500_000)],
    ids=["dashes", "ends", "han", "letters"],
)
def test_a_megabyte_of_ends_is_counted(text, count):
    assert tally_sentences(pa.array([text])).to_pylist() == [count]
