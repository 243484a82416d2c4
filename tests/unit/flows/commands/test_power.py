"""`gradebook power`: sample size, detectable difference, or power."""

import pytest


def test_a_difference_gives_the_n(gradebook):
    found = gradebook("power", "--sd", "1", "--effect", "0.5", "--unpaired", "--json").json
    assert (found["n"], found["is_paired"]) == (64, False)  # Cohen (1992), table 2


def test_an_n_gives_the_difference(gradebook):
    finished = gradebook("power", "--sd", "0.3", "--n", "200")
    assert finished.out.startswith("200 pairs find a true difference of 0.0597 with a power of 0.800")


def test_a_difference_and_an_n_give_the_power(gradebook):
    found = gradebook("power", "--sd", "1", "--effect", "0.5", "--n", "64", "--unpaired", "--json").json
    assert found["power"] == pytest.approx(0.8015, abs=1e-4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--sd", "0", "--n", "5"), "--sd: found 0, expected a number above 0"),
        (("--sd", "1"), "found neither --effect nor --n"),
        (("--sd", "1", "--n", "1"), "--n: found 1, expected 2 or more"),
        (("--sd", "1", "--effect", "0"), "--effect: found 0"),
        (("--sd", "1", "--n", "9", "--power", "0.01"), "expected 0 < alpha < power < 1"),
    ],
)
def test_invalid_options_are_refused(gradebook, words, told):
    finished = gradebook("power", *words)
    assert (finished.code, told in finished.err) == (2, True), finished.err
