"""`gradebook suite power`: sample size, detectable difference, or power."""

import pytest


def test_a_difference_gives_the_n(gradebook):
    found = gradebook("suite", "power", "--sd", "1", "--effect", "0.5", "--unpaired", "--json").json
    assert (found["n"], found["is_paired"]) == (64, False)  # Cohen (1992), table 2


def test_an_n_gives_the_difference(gradebook):
    finished = gradebook("suite", "power", "--sd", "0.3", "--n", "200")
    assert finished.out.startswith("200 pairs find a true difference of 0.0597 with a power of 0.800")


def test_a_difference_and_an_n_give_the_power(gradebook):
    found = gradebook("suite", "power", "--sd", "1", "--effect", "0.5", "--n", "64", "--unpaired", "--json").json
    assert found["power"] == pytest.approx(0.8015, abs=1e-4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--sd", "0", "--n", "5"), "--sd: found 0, expected a number above 0"),
        (("--sd", "1"), "found neither --effect nor --n"),
        (("--sd", "1", "--n", "1"), "--n: found 1, expected 2 or more"),
        (("--sd", "1", "--effect", "0"), "--effect: found 0"),
        (("--sd", "1", "--margin", "0"), "--margin: found 0, expected a number above 0"),
        (("--sd", "1", "--margin", "0.1", "--effect", "-0.1"), "--effect: found -0.1, expected a difference within"),
        (("--sd", "1", "--n", "9", "--samples", "4"), "found one of --samples and --icc, expected both"),
        (("--sd", "1", "--n", "9", "--equivalent"), "--equivalent: found no --margin"),
        (("--sd", "1", "--n", "9", "--power", "0.01"), "expected 0 < alpha < power < 1"),
    ],
)
def test_invalid_options_are_refused(gradebook, words, told):
    finished = gradebook("suite", "power", *words)
    assert (finished.code, told in finished.err) == (2, True), finished.err


def test_a_margin_gives_the_n_with_which_an_equal_model_passes(gradebook):
    # (1.95996 + 0.84162)^2 x 0.09 / 0.0004 = 1766 by the normal approximation
    finished = gradebook("suite", "power", "--sd", "0.3", "--margin", "0.02")
    assert finished.out.startswith("1,768 pairs pass not_worse_by(0.02) with a chance of 0.800 at a true")


def test_equivalence_takes_more(gradebook):
    found = gradebook("suite", "power", "--sd", "0.3", "--margin", "0.02", "--equivalent", "--json").json
    assert found["n"] == pytest.approx(2366, abs=3)  # (1.95996 + 1.28155)^2 x 0.09 / 0.0004 = 2364


@pytest.mark.parametrize(("icc", "same_as"), [("1", "0.3"), ("0", "0.15"), ("0.2", "0.18973666")])
def test_outputs_of_one_case_count_as_far_as_they_differ(gradebook, icc, same_as):
    # four outputs a case: sd x sqrt((1 + 3 x icc) / 4)
    clustered = gradebook("suite", "power", "--sd", "0.3", "--n", "50", "--samples", "4", "--icc", icc, "--json").json
    plain = gradebook("suite", "power", "--sd", same_as, "--n", "50", "--json").json
    assert clustered["effect"] == pytest.approx(plain["effect"])
