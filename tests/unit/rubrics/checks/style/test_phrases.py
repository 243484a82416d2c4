import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.checks.style.phrases import (
    LEAST_ROWS_TO_PREFILTER,
    PhraseBook,
    find_phrases,
    phrase_key,
    read_phrases,
)
from tests.support.law_over import law_over

LISTS = [
    "refusals",
    "as_an_ai",
    "profanity",
    "slurs",
    "mild_profanity",
    "hype",
    "judgmental",
    "condescending",
    "filler",
]
LISTS += ["apologetic", "cliches"]


@law_over(
    ("phrase", "text", "is_found"),
    [
        ("cat", "The CAT.", True),
        ("cat", "concatenate cats cat's", False),
        ("game-changing", "a game changing idea", True),
        ("must have", "they must. Have it", False),
        ("don't", "DON’T", True),
        ("so much", "so\n much", True),
        ("naïve", "_NAÏVE_", True),
        ("cafe", "cafe\u0301", False),
        ("no, sir", "No, Sir!", True),
        ("废话", "这是废话。", True),
        ("废话", "废 话", False),
        ("שלום", "שלום!", True),
        ("हिन्दी", "मैं हिन्दी हूँ", True),
        ("हिन्दी", "हिन्दू", False),  # the same letters with other marks
        ("an ai.", "I'm an AI", True),
        ("an ai.", "I'm an AI fan", False),
        ("word", "a\x00word\x00b", True),
        ("a", "", False),
    ],
)
def test_a_phrase_matches_whole_words(phrase, text, is_found):
    assert PhraseBook([phrase]).find(text) == ((phrase_key(phrase),) if is_found else ())


def test_the_first_of_phrases_that_overlap_is_named():
    assert PhraseBook(["a b c", "b c d", "d"]).find("a b c d") == ("a b c", "d")


@law_over("name", LISTS)
def test_every_phrase_of_a_list_is_found_in_itself(name):
    book = PhraseBook(read_phrases(name))
    assert [phrase for phrase in read_phrases(name)[::7] if not book.find(phrase)] == []


ODD_CASES = "İK\u017f"  # letters whose other case is another letter, or two
TEXT = st.text(alphabet="aAbi_ '’.中" + ODD_CASES, max_size=12)


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_many_rows_find_what_each_finds_alone(texts):
    book = PhraseBook(["ai", "a b", "bi", "kb i"], ["a bi"])
    many = pa.array(texts * LEAST_ROWS_TO_PREFILTER)
    assert find_phrases(many, book)[: len(texts)] == [book.find(text) for text in texts]
