import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import CheckVerdicts, read_settings
from gradebook.rubrics.checks.answers.choices import choice_finder
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over
from tests.support.nightly import nightly


def judge(output: str, reference: str | None, **given_settings: object) -> CheckVerdicts:
    check = find_check("choice_letter")
    shard = pa.table({"output": [output], "reference": pa.array([reference], pa.string())})
    return check.function(shard, read_settings(check, given_settings))


@law_over(
    ("text", "letters"),
    [
        (r"The answer is A, so \boxed{D}", "D"),
        (r"\boxed{A} or rather \boxed{\text{(C)}}", "C"),
        ("The answer is (B).", "B"),
        ("The answer to question 5 is C", "C"),
        ("**Answer:** B", "B"),
        ("**Answer: B**", "B"),
        ("Final Answer:\n\nB", "B"),
        ("answer is b", "B"),
        ("The correct option is **C**.", "C"),
        ("I would choose D.", "D"),
        ("A is wrong. B is correct.", "B"),
        ("答案是B", "B"),
        ("答案\uff1a**C**。", "C"),
        ("The answer is A, no wait, the answer is B.", "B"),
        ("The answer is A because it fits.", "A"),
        ("The answer is A train.", ""),
        ("The answer is a dog", ""),
        ("The answer is A or B", "AB"),
        ("(b)", "B"),
        ("b", "B"),
        ("Let me think.\r\n\r\n**B**.\r\n", "B"),
        ("A\nB", "AB"),
        ("So **B** it is, not C", "B"),
        ("B. Paris", "B"),
        ("b) Paris", "B"),
        ("A) one\nB) two\n\nAnswer: B", "B"),
        ("A) one\nB) two\nC) three", "AC"),
        ("It could be A or C.", "AC"),
        ("A train left. It is B", "B"),
        ("DNA, U.S. and C++", ""),
        ("", ""),
        (" \n\x00", ""),
        ("Paris 😀", ""),
        ("E", ""),
        ("התשובה היא B", "B"),
        ("The answer is A, B", "AB"),
        ("The answer is A, B and C.", "AB"),
        ("Answer: A\u3001C", "AC"),
        ("The answer is B, A is wrong", "B"),
        ("The answer is B? No, it is C.", "BC"),
    ],
)
def test_the_ladder_finds_the_letter(text, letters):
    assert choice_finder("ABCD").find(text) == letters


@law_over(
    ("text", "letters"),
    [
        ("The answer is not B", ""),
        ("The answer isn\u2019t (B).", ""),
        ("The answer cannot be B", ""),
        ("I don't think that the answer is B", ""),
        ("B is not correct", ""),
        ("**B** is wrong", ""),
        ("答案不是B", ""),
        ("The answer is not B but A", "A"),
        ("It is B, not A.", "B"),
        ("B because C is wrong", "B"),
        ("A is wrong and C can't be, so B", "B"),
        ("neither A nor C, so D", "D"),
        ("The answer is B, since A is not prime", "B"),
        ("I'm not sure, but B", "B"),
    ],
)
def test_a_denied_letter_is_no_choice(text, letters):
    assert choice_finder("ABCD").find(text) == letters


@law_over(
    ("output", "reference", "is_passed", "evidence"),
    [
        ("Answer: B", "B", True, None),
        ("Answer: B", "(b)", True, None),
        ("Answer: B", "B. Paris", True, None),
        ("Answer: C", "B", False, "found C, expected B"),
        ("A or C", "B", False, "found A and C, expected B"),
        ("Paris", "B", False, "found none of A, B, C, D, expected B"),
        ("A or B", "B", False, "found A and B, expected B"),
    ],
)
def test_the_letter_is_compared_with_the_reference(output, reference, is_passed, evidence):
    found = judge(output, reference)
    assert (found.is_passed.to_pylist(), found.evidence.to_pylist()) == ([is_passed], [evidence])


@pytest.mark.parametrize(
    ("reference", "reason"), [(None, "no reference"), ("Paris", "no choice in the reference 'Paris'")]
)
def test_a_reference_without_a_letter_cannot_tell(reference, reason):
    found = judge("Answer: B", reference)
    assert found.reasons is not None
    assert (found.is_passed.to_pylist(), found.reasons.to_pylist()) == ([None], [reason])


def test_other_letters_and_several_accepted_ones():
    assert judge("Answer: E", None, choices="abcde", expected=["A", "E"]).is_passed.to_pylist() == [True]
    assert judge("Answer: E", "A/E", choices="ABCDE", separator="/").is_passed.to_pylist() == [True]


@pytest.mark.parametrize(
    "given_settings",
    [{"choices": "A"}, {"choices": "AaB"}, {"choices": "A1"}, {"expected": "E"}, {"expected": "AB"}],
    ids=str,
)
def test_wrong_settings_are_refused(given_settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("choice_letter"), given_settings)


@pytest.mark.parametrize(
    "piece",
    ["not A ", *nightly(["answer is ", "(", "A ", "**A**", "\n", "I choose ", "\\boxed{", "A is ", "A, "])],
)
def test_a_megabyte_is_searched(piece):
    assert judge(piece * (1_000_000 // len(piece)), "B").is_passed.to_pylist() == [False]


@pytest.mark.parametrize(
    ("output", "letters"),
    [("not A but A", "A"), ("A, not A", "A"), ("A train, then A", "A"), ("**B** is wrong, no: **B**", "B")],
)
def test_a_letter_counts_where_one_of_its_mentions_does(output, letters):
    assert choice_finder("AB").find(output) == letters


def test_an_earlier_statement_counts_where_the_last_one_is_taken_back():
    assert choice_finder("AB").find("The answer is A. The answer is B? The answer is B is wrong.") == "A"
