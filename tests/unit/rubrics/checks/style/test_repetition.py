import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.checks.style.repetition import PUNCTUATION
from tests.support.law_over import law_over


def judge(outputs: list[str], **settings: object) -> tuple[list[bool], list[str | None]]:
    check = find_check("repetition")
    found = check.function(pa.table({"output": pa.array(outputs, pa.string())}), read_settings(check, settings))
    return found.is_passed.to_pylist(), found.evidence.to_pylist()


@law_over(
    ("output", "evidence"),
    [
        ("", None),
        ("   \n", None),
        ("no", None),
        ("ha ha ha", None),
        ("ha ha ha ha", "'ha' 4 times in a row, at most 3 allowed"),
        ("Ha, ha! HA. ha", "'ha' 4 times in a row, at most 3 allowed"),
        ("hahahaha", "'ha' 4 times in a row, at most 3 allowed"),
        ("noooooo way", "'o' 6 times in a row, at most 3 allowed"),
        ("I am. I am. I am. I am. Not.", "'i am' 4 times in a row, at most 3 allowed"),
        ("a line here\n" * 4, "'a line here' 4 times in a row, at most 3 allowed"),
        ("x 哈哈哈哈 y", "'哈' 4 times in a row, at most 3 allowed"),
        ("很好很好很好很好。", "'很 好' 4 times in a row, at most 3 allowed"),
        ("ไทยไทยไทยไทย", "'ไ ท ย' 4 times in a row, at most 3 allowed"),
        ("wow 😂😂😂😂😂", "'😂' 5 times in a row, at most 3 allowed"),
        ("!!!!!!!!", "'!' 8 times in a row, at most 3 allowed"),
        ("שלום שלום שלום שלום", "'שלום' 4 times in a row, at most 3 allowed"),
        ("----- ===== | --- | --- |---|---|---|---|", None),
        ("0.33333333 and 10000000 and ...... ______", None),
        ("https://www.example.org", None),
    ],
)
def test_the_longest_run_is_the_evidence(output, evidence):
    assert judge([output], max_rate=None, max_run=3) == ([evidence is None], [evidence])


def test_the_rate_is_the_share_of_phrases_that_stood_before():
    # a b, b c, c a, a b, b c: 5 phrases, 3 distinct, 2 stood before: 2 / 5
    assert judge(["a b c a b c"], n=2, max_rate=0.4, max_run=None) == ([True], [None])
    expected = "0.400 of the phrases of 2 words stood before, at most 0.3 allowed"
    assert judge(["a b c a b c"], n=2, max_rate=0.3, max_run=None) == ([False], [expected])


def test_a_phrase_of_64_words_is_found_in_a_row_and_one_of_65_is_not():
    for words, is_passed in ((64, False), (65, True)):
        loop = " ".join(f"w{number}" for number in range(words)) + " "
        assert judge([loop * 3], max_rate=None, max_run=2)[0] == [is_passed]


def test_phrases_of_two_texts_are_never_mixed():
    assert judge(["a b c d", "a b c d", "a", "a", "a"], max_rate=0, max_run=1)[0] == [True] * 5


@law_over(
    "settings",
    [{"max_rate": None, "max_run": None}, {"n": 0}, {"n": 101}, {"max_rate": 1.1}, {"max_run": 0}, {"max_run": 2.5}],
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("repetition"), settings)


@law_over(
    ("text", "is_passed"),
    [
        ("a" * 10**6, False),
        ("a " * 500_000, False),
        ("你好" * 160_000, False),
        ("I am sorry.\n" * 80_000, False),
        (" " * 10**6, True),
        ("." * 10**6, True),
        ("1" * 10**6, True),
        ("(" * 10**6, True),
        ("\x00" * 10**6, False),
        (" ".join(map(str, range(150_000))), True),
    ],
)
def test_a_hostile_text_gets_a_verdict(text, is_passed):
    assert judge([text])[0] == [is_passed]


def slow_rate(text: str, n: int) -> float:
    words = [word for word in (word.strip(PUNCTUATION).lower() for word in text.split()) if word]
    phrases = [tuple(words[place : place + n]) for place in range(len(words) - n + 1)]
    return 1 - len(set(phrases)) / len(phrases) if phrases else 0


def slow_run(text: str) -> int:
    words = [word for word in (word.strip(PUNCTUATION).lower() for word in text.split()) if word]
    longest = min(len(words), 1)
    for start in range(len(words)):
        for period in range(1, len(words) - start + 1):
            piece, times = words[start : start + period], 1
            while words[start + times * period : start + (times + 1) * period] == piece:
                times += 1
            longest = max(longest, times)
    return longest


texts = st.lists(st.text(alphabet="ab. B\n", max_size=24), max_size=4)


@given(texts, st.integers(1, 7), st.sampled_from([0, 0.25, 0.5]))
def test_the_rate_equals_a_plain_count(outputs, n, max_rate):
    expected = [slow_rate(text, n) <= max_rate for text in outputs]
    assert judge(outputs, n=n, max_rate=max_rate, max_run=None)[0] == expected


@given(st.lists(st.lists(st.sampled_from(["a", "b", "C."]), max_size=14).map(" ".join), max_size=4), st.integers(1, 4))
def test_the_run_equals_a_plain_search(outputs, max_run):
    expected = [slow_run(text) <= max_run for text in outputs]
    assert judge(outputs, n=3, max_rate=None, max_run=max_run)[0] == expected
