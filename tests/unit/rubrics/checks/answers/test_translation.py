import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check

PAIRS = [
    ("The cat sat on the mat.", "The cat sat on a mat."),
    ("the the the the the the the", "The cat is on the mat"),
    (
        "It is a guide to action which ensures that the military always obeys the commands of the party.",
        "It is a guide to action that ensures that the military will forever heed Party commands.",
    ),
    ("state-of-the-art costs $1,234.50 (50% off) &amp; more", "State-of-the-art: $1,234.50, 50% off & more"),
    ("一只猫坐在垫子上。", "那只猫坐在3张垫子上!"),
    ("line one\nline-\ntwo <skipped>", "line one linetwo"),
    ("Der Hund schläft.", "Die Hunde schlafen."),
    ("Nile", "Nile"),
    ("a b", "a b c d e"),
    ("x", "y"),
]


def measured(name: str, pairs: list[tuple[str, str]], **given_settings: object) -> list[float]:
    check = find_check(name)
    outputs, references = zip(*pairs, strict=True)
    shard = pa.table({"output": pa.array(outputs), "reference": pa.array(references)})
    found = check.function(shard, read_settings(check, {"min": 0, **given_settings}))
    return [float(text.split()[-1]) for text in found.evidence.to_pylist()]


@pytest.mark.parametrize("tokenizer", ["13a", "zh", "char"])
def test_bleu_is_that_of_sacrebleu(tokenizer):
    theirs = BLEU(effective_order=True, tokenize=tokenizer)
    expected = [theirs.sentence_score(output, [reference]).score / 100 for output, reference in PAIRS]
    assert measured("bleu", PAIRS, tokenizer=tokenizer) == pytest.approx(expected, abs=1e-6)


def test_chrf_is_that_of_sacrebleu():
    expected = [CHRF().sentence_score(output, [reference]).score / 100 for output, reference in PAIRS]
    assert measured("chrf", PAIRS) == pytest.approx(expected, abs=1e-6)


def test_bleu_by_hand():
    # the cat | 2/2 and 1/1, and brevity e^(1 - 3/2) = 0.606531
    assert measured("bleu", [("the cat", "the cat sat")]) == [0.606531]


def test_chrf_by_hand():
    # "ab" and "abc": precision 1 and 1, recall 2/3 and 1/2; the means 1 and 7/12; 5 x 7/12 / (4 + 7/12) = 35/55
    assert measured("chrf", [("ab", "abc")]) == [0.636364]


def test_case_is_folded_when_asked():
    assert measured("bleu", [("THE CAT", "the cat")], case_sensitive=False) == [1]
    assert measured("chrf", [("THE CAT", "the cat")], case_sensitive=False) == [1]


TEXT = st.text(["a", "b", "A", " ", "\n", ".", ",", "-", "1", "&", "é", "中", "\u201c", "$", "\u2009"], max_size=16)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4), st.sampled_from(["13a", "zh", "char"]))
def test_any_text_measures_as_in_sacrebleu(pairs, tokenizer):
    pairs = [pair for pair in pairs if any(text.strip() for text in pair)] or [("a", "b")]
    bleu, chrf = BLEU(effective_order=True, tokenize=tokenizer), CHRF()
    assert measured("bleu", pairs, tokenizer=tokenizer) == pytest.approx(
        [bleu.sentence_score(output, [reference]).score / 100 for output, reference in pairs], abs=1e-6
    )
    assert measured("chrf", pairs) == pytest.approx(
        [chrf.sentence_score(output, [reference]).score / 100 for output, reference in pairs], abs=1e-6
    )
