"""The judge of a past run, made again from what the run recorded."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.judging.settings.judge import (
    CascadeSettings,
    Judge,
    JudgeSettings,
    PanelSettings,
    ReplaySettings,
    When,
)
from gradebook.tasks.judging.settings.model import Prices
from gradebook.tasks.ledger.past_judges import PastJudge
from tests.support.law_over import law_over

ALONE = {"replicates": 1, "replicate_share": 1.0, "swap_share": 0.0}
PRICES = Prices(input_usd=1, output_usd=2)


def past(judge: Judge, **opinions: Any) -> PastJudge:
    """As a run's settings have it: through JSON."""
    return PastJudge(judge.judge, json.loads(json.dumps(judge.identity)), ALONE | opinions)


@pytest.mark.parametrize(
    "judge",
    [
        JudgeSettings(model="m", temperature=0.5, packing=4, max_tokens=99, seed=3),
        JudgeSettings(model="m", mode="logprobs"),
        JudgeSettings.model_validate({"model": "float", "temperature": 0.0}),
        PanelSettings((JudgeSettings(model="a", replicates=3), ReplaySettings(Path("x"), "d")), "median"),
        CascadeSettings(JudgeSettings(model="a"), JudgeSettings(model="b"), When(share_below=0.5, criteria=("t",))),
    ],
    ids=lambda judge: judge.judge,
)
def test_a_judge_is_made_again_as_it_was(judge: Judge):
    restored = past(judge).restore(None, None)
    assert restored is not None
    assert restored.judge_digest == judge.judge_digest


def test_the_replicates_of_a_single_judge_are_those_of_its_opinions():
    restored = past(JudgeSettings(model="m"), replicates=3, replicate_share=0.5).restore(None, None)
    assert isinstance(restored, JudgeSettings)
    assert (restored.replicates, restored.replicate_share) == (3, 0.5)


@law_over(
    ("settings", "changed"),
    [
        ({}, ()),
        ({"prices": PRICES, "max_in_flight": 2}, ()),
        ({"temperature": 1}, ("temperature",)),
        ({"packing": 4}, ("prompt", "packing")),
        ({"replicates": 3}, ("replicates",)),
        ({"swap_share": 0.1}, ("swap_share",)),
        ({"model": "n"}, ("model",)),
    ],
)
def test_what_bears_on_a_reply_makes_another_judge(settings: dict[str, Any], changed: tuple[str, ...]):
    assert past(JudgeSettings(model="m")).changes(JudgeSettings.model_validate({"model": "m"} | settings)) == changed


@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        ({"replicates": 3, "replicate_share": 0.5, "swap_share": 0.1}, ()),
        ({"replicates": 3, "replicate_share": 0.9, "swap_share": 0.1}, ("replicate_share",)),
        ({"replicates": 3, "replicate_share": 0.5, "swap_share": 0.4}, ("swap_share",)),
        ({"replicates": 3, "replicate_share": 0.5}, ("swap_share",)),
    ],
)
def test_a_share_is_another_where_the_draw_cant_explain_what_the_opinions_show(
    settings: dict[str, Any], changed: tuple[str, ...]
):
    judge = JudgeSettings(model="m")
    shown = {"replicates": 3, "replicate_share": 0.46, "swap_share": 0.13}  # 2 and 1.4 deviations off at 200 outputs
    found = PastJudge("m", json.loads(json.dumps(judge.identity)), shown, output_count=200)
    assert found.changes(JudgeSettings.model_validate({"model": "m"} | settings)) == changed


def test_a_judge_of_other_shares_does_not_stand_for_the_past_one():
    later = JudgeSettings(model="m", replicates=3, replicate_share=1.0, prices=PRICES)
    restored = past(JudgeSettings(model="m"), replicates=3, replicate_share=0.5).restore(later, None)
    assert isinstance(restored, JudgeSettings)
    assert (restored.replicate_share, restored.prices) == (0.5, PRICES)


def test_the_prices_of_a_judge_of_the_same_model_are_taken():
    later = JudgeSettings(model="m", packing=4, prices=PRICES)
    restored = past(JudgeSettings(model="m", mode="logprobs")).restore(later, None)
    assert isinstance(restored, JudgeSettings)
    assert (restored.prices, restored.packing, restored.mode) == (PRICES, 1, "logprobs")


def test_a_judge_that_was_not_recorded_is_known_by_its_model():
    restored = PastJudge("m", None, ALONE).restore(None, "http://a.test/v1")
    assert isinstance(restored, JudgeSettings)
    assert (restored.model, restored.base_url) == ("m", "http://a.test/v1")


def test_of_an_identity_of_another_gradebook_nothing_is_made():
    assert PastJudge("m", {"kind": "panel"}, ALONE).restore(None, None) is None
