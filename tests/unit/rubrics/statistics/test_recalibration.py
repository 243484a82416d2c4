"""Temperatures of probabilities: fitted to levels drawn from known ones."""

import numpy as np
import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.distributions import VerdictRule, tempered, verdict_of
from gradebook.rubrics.statistics.judge_quality import fit_temperature, recalibrate, temper

LEVELS = [{"id": name, "score": score, "description": name} for name, score in (("bad", 0), ("so", 0.5), ("good", 1))]
TONE = Criterion.model_validate(
    {"id": "tone", "description": "Is it kind?", "method": {"type": "judge"}, "levels": LEVELS}
)


def drawn(temperature: float, count: int = 4_000) -> tuple[np.ndarray, np.ndarray]:
    """Distributions that a judge gave, and levels by those that it should have given."""
    rng = np.random.default_rng(7)
    given = rng.dirichlet([1.0, 1.0, 1.0], count)
    return given, np.array([rng.choice(3, p=each) for each in temper(given, temperature)])


def test_a_temperature_is_p_to_its_inverse_and_keeps_the_level():
    # sqrt(0.16) : sqrt(0.36) : sqrt(0.48) = 0.4 : 0.6 : 0.693
    shares = {"bad": 0.16, "so": 0.36, "good": 0.48}
    whole = 0.4 + 0.6 + 0.48**0.5
    expected = {"bad": 0.4 / whole, "so": 0.6 / whole, "good": 0.48**0.5 / whole}
    assert tempered(shares, 2.0) == pytest.approx(expected)
    assert temper(np.array([[0.16, 0.36, 0.48]]), 2.0)[0] == pytest.approx([*expected.values()])
    assert tempered({"bad": 0.0, "good": 1.0}, 3.0) == {"bad": 0.0, "good": 1.0}
    level, score = verdict_of(shares, TONE, VerdictRule(temperatures=(("tone", 2.0),)))
    assert (level, score) == ("good", pytest.approx((0.3 + 0.48**0.5) / whole))
    assert verdict_of(shares, TONE, VerdictRule(temperatures=(("else", 2.0),))) == verdict_of(shares, TONE)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_temperature_of_drawn_levels_is_found(temperature: float):
    assert fit_temperature(*drawn(temperature)) == pytest.approx(temperature, rel=0.1)


def test_a_gain_is_claimed_where_there_is_one_alone():
    for temperature, is_better in ((2.5, True), (1.0, False)):
        shares, places = drawn(temperature, 400)
        found = recalibrate(shares, places, np.arange(400), np.random.default_rng(1))
        assert found.is_better is is_better
        assert (found.fitted_log_loss < found.log_loss) is is_better or not is_better
        assert found.gain == pytest.approx(found.log_loss - found.fitted_log_loss)
