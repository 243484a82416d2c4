import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.checks.length import count_words
from tests.support.bounded import bounded_work
from tests.support.law_over import law_over

SPACES = [chr(point) for point in range(0x3001) if chr(point).isspace()]
# Neighbours of the wide spaces, byte by byte: none of them is whitespace.
NEAR_SPACES = "\x84\x86\x9f\xa1\u167f\u1681\u1fff\u200b\u2027\u202a\u202e\u2030\u205e\u2060\u2fff\u3001\ufeff\u180e"
PIECES = [*SPACES, *NEAR_SPACES, "\r\n", "a", "é", "中", "😀", "e\u0301", "שלום", "\x00"]
TEXTS = st.lists(
    st.one_of(st.text(max_size=8), st.lists(st.sampled_from(PIECES), max_size=20).map("".join)), max_size=12
)


@given(TEXTS)
def test_words_are_counted_as_python_splits_them(texts):
    assert count_words(pa.array(texts, pa.string())).to_pylist() == [len(text.split()) for text in texts]


@given(TEXTS, st.integers(0, 5), st.integers(0, 5))
def test_a_slice_counts_its_own_rows(texts, start, length):
    sliced = pa.array(texts, pa.large_string()).slice(min(start, len(texts)), length)
    assert count_words(sliced).to_pylist() == [len(text.split()) for text in sliced.to_pylist()]


@law_over("space", SPACES)
def test_every_whitespace_of_python_parts_words(space):
    # a, then b: two words; whitespace alone: none
    assert count_words(pa.array([f"a{space}b", space, f"{space}a{space}"])).to_pylist() == [2, 0, 1]


@law_over("near", NEAR_SPACES)
def test_a_neighbour_of_whitespace_parts_no_words(near):
    expected = len(f"a{near}b".split())
    assert count_words(pa.array([f"a{near}b"])).to_pylist() == [expected]


@law_over(
    ("text", "count"),
    [("", 0), (" \t\n ", 0), ("你好 世界", 2), ("你好\u3000世界", 2), ("👩\u200d👩\u200d👧 ok", 2), ("e\u0301a b", 2)],
)
def test_words_of_any_script_are_counted(text, count):
    assert count_words(pa.array([text])).to_pylist() == [count]


@law_over("text", ["שלום עולם", "a\r\nb", "\x00 \x00", "a\x85b", "a\u2028b", "a\x1cb"])
def test_odd_texts_of_two_words_count_two(text):
    assert count_words(pa.array([text])).to_pylist() == [2]


def test_a_word_at_a_row_edge_belongs_to_its_own_row():
    # the bytes of the rows lie side by side: "ab" "cd" "" " e"
    assert count_words(pa.array(["ab", "cd", "", " e"])).to_pylist() == [1, 1, 0, 1]


def test_no_rows_have_no_counts():
    assert count_words(pa.array([], pa.string())).to_pylist() == []


def test_a_million_characters_are_counted_in_linear_time():
    with bounded_work():
        assert count_words(pa.array(["中 " * 500_000])).to_pylist() == [500_000]
