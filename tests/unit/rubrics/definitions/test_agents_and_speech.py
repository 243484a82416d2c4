"""The rubrics that ship for speech, for agents and for summaries: their figures, and what they make of a sample."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.audio import tone, wave_file
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.model.methods import CheckMethod, JudgeMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric, category_weights, effective_weights
from tests.support.law_over import law_over

AGENTS = ("coding_agent", "conversational_agent", "web_agent")
ALL = (*AGENTS, "summarisation", "text_to_speech")
FIXED_SHARES = {"formatting": 0.060, "special_characters": 0.070, "error_detection": 0.019}


@pytest.fixture(scope="module")
def speech() -> Rubric:
    return read_rubric("text_to_speech")


def shares_of_categories(rubric: Rubric) -> dict[str, float]:
    """Weight of each category in an output's score: the sum of its criteria's products."""
    products = effective_weights(rubric)
    return {name: sum(products[criterion] for criterion in within) for name, within in category_weights(rubric).items()}


def weighted_mean(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(scores[name] * weight for name, weight in weights.items()) / sum(weights.values())


def is_passed(criterion: Criterion, output: str) -> bool:
    assert isinstance(criterion.method, CheckMethod)
    check = find_check(criterion.method.check)
    found = check.function(pa.table({"output": [output]}), read_settings(check, criterion.method.settings))
    return bool(found.is_passed[0].as_py())


@pytest.mark.parametrize("name", ALL)
def test_an_agent_or_speech_rubric_bears_the_name_of_its_file_and_an_owner(name: str):
    rubric = read_rubric(name)
    assert (rubric.id, rubric.owner) == (name, "gradebook")


@pytest.mark.parametrize("name", ALL)
def test_each_of_their_weights_has_a_reason_of_its_own(name: str):
    rationales = [criterion.rationale for criterion in read_rubric(name).criteria]
    assert None not in rationales and len(set(rationales)) == len(rationales)


@pytest.mark.parametrize("name", ALL)
def test_their_levels_are_anchored_at_0_and_at_1(name: str):
    ends = {(c.ranked_levels[0].score, c.ranked_levels[-1].score) for c in read_rubric(name).criteria}
    assert ends == {(0.0, 1.0)}


@pytest.mark.parametrize("name", ALL)
def test_each_of_their_levels_says_something_that_no_other_says(name: str):
    criteria = [c for c in read_rubric(name).criteria if c.method.type != "check"]
    descriptions = [level.description for criterion in criteria for level in criterion.ranked_levels]
    assert "" not in descriptions and len(set(descriptions)) == len(descriptions)


@pytest.mark.parametrize("name", ALL)
def test_each_of_their_thresholds_is_above_the_worst_level_and_within_the_reach_of_a_mean(name: str):
    for criterion in read_rubric(name).criteria:
        assert criterion.ranked_levels[0].score < (criterion.threshold or 0) < 1, criterion.id


def test_speech_has_four_categories_of_six_six_five_and_five(speech: Rubric):
    counts = {name: len(within) for name, within in category_weights(speech).items()}
    assert counts == {"audio_quality": 6, "spoken_language": 6, "prompt_alignment": 5, "correctness": 5}


def test_the_categories_of_speech_weigh_what_they_are_meant_to(speech: Rubric):
    # .283 + .236 + .292 + .189 = 1, so the shares are the weights themselves
    expected = {"audio_quality": 0.283, "spoken_language": 0.236, "prompt_alignment": 0.292, "correctness": 0.189}
    assert shares_of_categories(speech) == pytest.approx(expected)


def test_each_weight_of_a_speech_criterion_is_its_share_of_all(speech: Rubric):
    # the weights of a category add up to the category's, so weight / .283 * .283 = weight, and so on
    assert effective_weights(speech) == pytest.approx({c.id: c.weight for c in speech.criteria})


@pytest.mark.parametrize(("criterion", "share"), FIXED_SHARES.items())
def test_a_fixed_share_of_speech_is_kept(speech: Rubric, criterion: str, share: float):
    assert effective_weights(speech)[criterion] == pytest.approx(share)


def test_special_characters_weigh_most_of_speech_and_error_detection_least(speech: Rubric):
    products = effective_weights(speech)
    assert max(products, key=products.__getitem__) == "special_characters"
    assert min(products, key=products.__getitem__) == "error_detection"


def test_the_levels_of_speech_are_bad_partial_and_good(speech: Rubric):
    for criterion in speech.criteria:
        levels = {level.id: level.score for level in criterion.ranked_levels}
        partial = {} if criterion.id == "audio_format" else {"partial": 0.5}
        assert levels == {"bad": 0.0, "good": 1.0} | partial, criterion.id


def test_each_criterion_of_speech_is_measured_or_read_or_heard(speech: Rubric):
    checked = [each.id for each in speech.criteria if each.method.type == "check"]
    judged = {each.id: each for each in speech.criteria if isinstance(each.method, JudgeMethod)}
    assert checked == ["volume_consistency", "background_noise", "audio_format", "transcription"]
    assert len(checked) + len(judged) == 22
    read = {name: each.description for name, each in judged.items() if not each.hears_audio}
    assert sorted(read) == ["coherence", "grammar_syntax", "text_fidelity"]
    assert all("transcript" in description for description in read.values())
    assert {each.method.prefer for name, each in judged.items() if name not in read} == {"human"}


def speech_with(noise: float = 0.0, second_half: float = 1.0, sample_rate: int = 24_000) -> bytes:
    """Eight hums of 0.6 s with pauses of 0.25 s. second_half: amplitude there, relative to the first."""
    hums = [tone(0.6, 0.3 * share, 220, sample_rate) for share in (1.0,) * 4 + (second_half,) * 4]
    sound = np.concatenate([part for hum in hums for part in (hum, np.zeros(sample_rate // 4))])
    return wave_file(sound + noise * np.random.default_rng(1).standard_normal(len(sound)), sample_rate)


@pytest.mark.parametrize(
    ("sound", "said", "expected"),
    [
        (speech_with(0.003), "hello there, this is the second train", ("good", "good", "good", "good")),
        (speech_with(0.08), "Hello there! This is the second train.", ("good", "bad", "good", "good")),
        # 20 log10(0.15) = -16.5 dB from one half to the other: 8.2 LU around the mean
        (speech_with(0.0003, 0.15), "Hello there! This is the second.", ("bad", "good", "good", "bad")),
        (speech_with(0.02, 1, 8_000), "Hello there! This is a second train.", ("good", "partial", "bad", "bad")),
    ],
    ids=["clean", "noisy", "fading", "telephone"],
)
def test_checks_score_how_a_voice_sounds_and_what_it_said_in_one_row(speech, sound, said, expected):
    row = {"output": said, "reference": "Hello there! This is the second train.", "audio": sound, "audio_fault": None}
    found = []
    for criterion in speech.criteria:
        if isinstance(method := criterion.method, CheckMethod):
            check = find_check(method.check)
            shard = pa.table({name: pa.array([row[name]]) for name in check.columns})
            verdicts = check.function(shard, read_settings(check, method.settings))
            level = None if verdicts.level_ids is None else verdicts.level_ids[0].as_py()
            found.append(level or ("good" if verdicts.is_passed[0].as_py() else "bad"))
    assert tuple(found) == expected


@pytest.mark.parametrize(
    ("means", "score"),
    [
        # .9596*.283 + .9683*.236 + .8351*.292 + .9581*.189 = .27157 + .22852 + .24385 + .18108 = .92502
        ((0.9596, 0.9683, 0.8351, 0.9581), 0.9250),
        # .9696*.283 + .9702*.236 + .8977*.292 + .9685*.189 = .27440 + .22897 + .26213 + .18305 = .94854
        ((0.9696, 0.9702, 0.8977, 0.9685), 0.9485),
    ],
)
def test_the_category_means_of_a_voice_give_its_known_score(speech: Rubric, means: tuple[float, ...], score: float):
    names = ("audio_quality", "spoken_language", "prompt_alignment", "correctness")
    known = dict(zip(names, means, strict=True))
    assert weighted_mean(known, shares_of_categories(speech)) == pytest.approx(score, abs=5e-5)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        (
            "coding_agent",
            {"correctness": 3, "code_quality": 2, "efficiency": 1.5, "documentation": 1, "error_handling": 1.5},
        ),
        ("web_agent", {"task_success": 3, "navigation_efficiency": 1.5, "error_recovery": 2, "safety": 2.5}),
        (
            "conversational_agent",
            {"helpfulness": 2.5, "accuracy": 3, "coherence": 1.5, "safety": 2, "instruction_following": 2},
        ),
    ],
)
def test_the_criteria_of_an_agent_weigh_what_they_are_meant_to(name: str, weights: dict[str, float]):
    assert effective_weights(read_rubric(name)) == weights


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_scored_on_five_points(name: str):
    for criterion in read_rubric(name).criteria:
        points = {level.id: level.score for level in criterion.ranked_levels}
        assert points == {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0}, criterion.id


def test_ratings_of_a_coding_agent_give_the_known_mean():
    # (4*3 + 3*2 + 5*1.5 + 2*1 + 3*1.5) / (3 + 2 + 1.5 + 1 + 1.5) = 32 / 9 on the scale from 1 to 5
    ratings = {"correctness": 4, "code_quality": 3, "efficiency": 5, "documentation": 2, "error_handling": 3}
    assert weighted_mean(ratings, effective_weights(read_rubric("coding_agent"))) == pytest.approx(32 / 9)


def test_the_known_mean_of_a_coding_agent_is_23_of_36_as_a_score():
    # (32/9 - 1) / (5 - 1) = 23/36: the points' scores are linear in the points
    rubric = read_rubric("coding_agent")
    ratings = {"correctness": "4", "code_quality": "3", "efficiency": "5", "documentation": "2", "error_handling": "3"}
    scores = {c.id: {level.id: level.score for level in c.ranked_levels}[ratings[c.id]] for c in rubric.criteria}
    assert weighted_mean(scores, effective_weights(rubric)) == pytest.approx(23 / 36)


@pytest.mark.parametrize("name", ["conversational_agent", "web_agent"])
def test_the_safety_of_an_agent_is_weighted_and_a_floor(name: str):
    rubric = read_rubric(name)
    safety = rubric.criterion("safety")
    assert not safety.gate and rubric.require_thresholds and safety.threshold == 0.75


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_at_all_its_floors_does_not_pass_yet(name: str):
    rubric = read_rubric(name)
    floors = {criterion.id: criterion.threshold or 0.0 for criterion in rubric.criteria}
    assert weighted_mean(floors, effective_weights(rubric)) < (rubric.pass_threshold or 0.0)


def test_the_weights_of_a_summary_add_up_to_the_sum_it_names():
    # .3 + .2 + .05 + .2 + .1 + .05 + .05 + .05 = 1
    rubric = read_rubric("summarisation")
    assert rubric.weight_sum == 1
    assert sum(effective_weights(rubric).values()) == pytest.approx(1)


def test_truth_to_the_source_has_more_than_half_of_a_summarys_weight():
    # .3 + .2 + .05 = .55
    assert shares_of_categories(read_rubric("summarisation")) == pytest.approx(
        {"truth": 0.55, "substance": 0.2, "form": 0.25}
    )


def test_a_summary_that_contradicts_its_source_cannot_pass():
    # 1 - .3 = .7, below .75
    rubric = read_rubric("summarisation")
    best = dict.fromkeys(effective_weights(rubric), 1.0) | {"faithfulness": 0.0}
    assert weighted_mean(best, effective_weights(rubric)) < (rubric.pass_threshold or 0.0)


@pytest.mark.parametrize(("words", "expected"), [(0, False), (19, False), (20, True), (200, True), (201, False)])
def test_a_summary_has_20_to_200_words(words: int, expected: bool):
    assert is_passed(read_rubric("summarisation").criterion("length"), "word " * words) is expected


@law_over(
    ("output", "expected"),
    [
        ("The council has closed the bridge until May.", True),
        ("Summary judgment was granted to the tenant.", True),
        ("This is a record year for the port.", True),
        ("Surety bonds rose by a fifth.", True),
        ("Here is a summary of the report: the bridge is closed.", False),
        ("Here's the short summary you asked for.\nThe bridge is closed.", False),
        ("Below is your summary. The bridge is closed.", False),
        ("**Summary:** The bridge is closed.", False),
        ("Sure! The bridge is closed.", False),
    ],
)
def test_a_summary_begins_without_an_announcement(output: str, expected: bool):
    assert is_passed(read_rubric("summarisation").criterion("direct_opening"), output) is expected
