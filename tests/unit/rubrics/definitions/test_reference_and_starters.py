"""The ten reference dimensions, and the rubrics to start from that are composed of them."""

from importlib import resources

import pytest
import yaml

from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.model.methods import CheckMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from tests.support import checked
from tests.support.law_over import law_over

# By rubric: the weights' sum, the pass threshold, and each weighted criterion's weight and threshold.
FIGURES: dict[str, tuple[float, float, dict[str, tuple[float, float]]]] = {
    "reference_dimensions": (
        0.85,
        0.7,
        {
            "accuracy": (0.15, 0.70),
            "relevance": (0.10, 0.70),
            "completeness": (0.10, 0.70),
            "task_completion": (0.10, 0.70),
            "hallucination_risk": (0.15, 0.80),
            "groundedness": (0.10, 0.75),
            "consistency": (0.05, 0.70),
            "tone_fit": (0.05, 0.60),
            "actionability": (0.05, 0.65),
        },
    ),
    "rag_answer": (
        0.85,
        0.75,
        {
            "groundedness": (0.20, 0.80),
            "hallucination_risk": (0.15, 0.85),
            "citation_correctness": (0.10, 0.80),
            "context_relevance": (0.10, 0.70),
            "accuracy": (0.10, 0.75),
            "completeness": (0.10, 0.70),
            "actionability": (0.05, 0.65),
            "tone_fit": (0.05, 0.60),
        },
    ),
    "booking_assistant": (
        0.95,
        0.8,
        {
            "intent_detection": (0.20, 0.90),
            "booking_readiness": (0.15, 0.85),
            "names_day_and_hour": (0.05, 0.9),
            "human_handoff": (0.10, 0.80),
            "clear_answer": (0.10, 0.75),
            "tone_fit": (0.10, 0.70),
            "hallucination_risk": (0.10, 0.85),
            "actionability": (0.10, 0.70),
            "consistency": (0.05, 0.70),
        },
    ),
    "planner": (
        0.85,
        0.75,
        {
            "task_completion": (0.20, 0.75),
            "plan_coherence": (0.10, 0.70),
            "hallucination_risk": (0.15, 0.85),
            "accuracy": (0.10, 0.75),
            "actionability": (0.10, 0.70),
            "completeness": (0.10, 0.70),
            "tone_fit": (0.05, 0.60),
            "consistency": (0.05, 0.70),
        },
    ),
    "support_reply": (
        0.9,
        0.75,
        {
            "accuracy": (0.15, 0.80),
            "completeness": (0.10, 0.75),
            "hallucination_risk": (0.15, 0.85),
            "tone_fit": (0.10, 0.75),
            "actionability": (0.10, 0.70),
            "relevance": (0.10, 0.75),
            "consistency": (0.05, 0.70),
            "groundedness": (0.15, 0.75),
        },
    ),
    "daily_reflection": (
        0.9,
        0.75,
        {
            "life_area_accuracy": (0.15, 0.80),
            "emotional_nuance": (0.10, 0.70),
            "non_judgmental_tone": (0.10, 0.75),
            "useful_next_step": (0.10, 0.65),
            "memory_relevance": (0.10, 0.70),
            "completeness": (0.10, 0.70),
            "hallucination_risk": (0.15, 0.80),
            "tone_fit": (0.05, 0.70),
            "consistency": (0.05, 0.70),
        },
    ),
}
GATES = {
    "reference_dimensions": {"safety", "no_personal_data"},
    "rag_answer": {"safety", "no_personal_data", "no_empty_citation", "no_unknown_citation"},
    "booking_assistant": {"safety", "no_false_confirmation", "no_personal_data"},
    "planner": {"safety"},
    "support_reply": {"safety", "no_personal_data"},
    "daily_reflection": {"safety", "help_named", "no_personal_data", "no_hurtful_phrase"},
}
STARTERS = [name for name in FIGURES if name != "reference_dimensions"]


@law_over("name", FIGURES)
def test_weights_and_thresholds_are_the_intended_ones(name: str):
    weighted = weighted_criteria(read_rubric(name))
    assert {each.id: (each.weight, each.threshold) for each in weighted} == FIGURES[name][2]


@law_over("name", FIGURES)
def test_the_weights_add_up_as_the_comment_at_the_top_says(name: str):
    # reference: 2 * .15 + 4 * .1 + 3 * .05 = .85; rag and planner: .2 + .15 + 4 * .1 + 2 * .05 = .85
    # booking: .2 + .15 + 5 * .1 + 2 * .05 = .95; support: 3 * .15 + 4 * .1 + .05 = .9
    # reflection: 2 * .15 + 5 * .1 + 2 * .05 = .9
    total = sum(each.weight or 0 for each in weighted_criteria(read_rubric(name)))
    assert total == pytest.approx(FIGURES[name][0])
    assert f"add up to {FIGURES[name][0]}" in header(name)


@law_over("name", FIGURES)
def test_the_pass_threshold_is_the_weighted_mean_of_the_thresholds_to_the_nearest_twentieth(name: str):
    # reference: .6075 / .85 = .715 -> .7; rag: .645 / .85 = .759 -> .75; booking: .7225 / .9 = .803 -> .8
    # planner: .6275 / .85 = .738 -> .75; support: .69 / .9 = .767 -> .75; reflection: .66 / .9 = .733 -> .75
    total, pass_threshold, figures = FIGURES[name]
    mean = sum(weight * threshold for weight, threshold in figures.values()) / total
    assert round(mean * 20) / 20 == pytest.approx(pass_threshold)
    assert read_rubric(name).pass_threshold == pass_threshold


def test_the_reference_dimensions_hold_their_weights_to_the_sum_they_are_meant_to_have():
    assert read_rubric("reference_dimensions").weight_sum == 0.85


def test_the_reference_dimensions_are_ten_of_which_one_is_a_gate_in_two_halves():
    ids = [each.id for each in read_rubric("reference_dimensions").criteria]
    assert len(ids) == 11
    assert set(ids) == {*FIGURES["reference_dimensions"][2], "safety", "no_personal_data"}


def test_a_case_without_a_context_leaves_the_reference_score_to_the_other_dimensions():
    assert read_rubric("reference_dimensions").missing == "skip"


@law_over("name", FIGURES)
def test_the_gates_are_the_intended_ones_and_weigh_nothing(name: str):
    gates = [each for each in read_rubric(name).criteria if each.gate]
    assert {each.id for each in gates} == GATES[name]
    assert [each.id for each in gates if each.weight is not None] == []


@law_over("name", FIGURES)
def test_a_gate_that_a_judge_decides_has_two_levels(name: str):
    judged = [each for each in read_rubric(name).criteria if each.gate and each.method.type == "judge"]
    assert judged
    assert [each.id for each in judged if [level.score for level in each.levels] != [0, 1]] == []


@law_over("name", FIGURES)
def test_levels_rise_from_0_to_1(name: str):
    scores = {each.id: [level.score for level in each.levels] for each in read_rubric(name).criteria if each.levels}
    assert [key for key, row in scores.items() if row != sorted(set(row)) or (row[0], row[-1]) != (0, 1)] == []


@law_over("name", FIGURES)
def test_every_criterion_but_a_check_has_described_levels_with_signs_of_each(name: str):
    read = [each for each in read_rubric(name).criteria if each.method.type != "check"]
    assert [each.id for each in read if not each.levels] == []
    levels = [level for each in read for level in each.levels]
    assert [level.id for level in levels if len(level.description) < 40 or not 1 <= len(level.indicators) <= 3] == []


@law_over("name", FIGURES)
def test_every_criterion_says_why_it_weighs_what_it_weighs(name: str):
    assert [each.id for each in read_rubric(name).criteria if not each.rationale or not each.category] == []


@law_over("name", FIGURES)
def test_no_indicator_is_the_second_half_of_one_that_a_comma_cut_in_two(name: str):
    levels = [level for each in read_rubric(name).criteria for level in each.levels]
    cut = [sign for level in levels for sign in level.indicators if sign.startswith(("and ", "or ", "but ", "then "))]
    assert cut == []


@pytest.mark.parametrize("name", STARTERS)
def test_a_starter_uses_a_reference_dimension_and_never_writes_one_anew(name: str):
    entries = yaml.safe_load(text_of(name))["criteria"]
    shared = set(FIGURES["reference_dimensions"][2]) | GATES["reference_dimensions"]
    assert [entry["id"] for entry in entries if entry.get("id") in shared] == []
    assert {entry["use"] for entry in entries if "use" in entry} <= shared


@pytest.mark.parametrize("name", STARTERS)
def test_a_criterion_that_a_starter_uses_and_weighs_has_a_question_and_a_rationale_of_its_own(name: str):
    base = read_rubric("reference_dimensions")
    used = [each for each in weighted_criteria(read_rubric(name)) if each.id in FIGURES[base.id][2]]
    inherited = [(each.description, each.rationale) for each in base.criteria]
    assert [each.id for each in used if each.description in dict(inherited)] == []
    assert [each.id for each in used if each.rationale in dict(inherited).values()] == []


@law_over("name", FIGURES)
def test_what_is_made_up_is_no_second_count_of_the_claims_with_a_source(name: str):
    methods = {each.id: each.method.type for each in read_rubric(name).criteria}
    assert methods["hallucination_risk"] == "judge"  # sees prompt, context and reference, and asks for none of them
    assert methods.get("groundedness", "claims") == "claims"


def weighted_criteria(rubric: Rubric) -> list[Criterion]:
    return [criterion for criterion in rubric.criteria if not criterion.gate]


def text_of(name: str) -> str:
    return (resources.files("gradebook.rubrics") / "definitions" / f"{name}.yaml").read_text(encoding="utf-8")


def header(name: str) -> str:
    """The comment at the top of a shipped rubric, as one line."""
    lines = text_of(name).partition("\nid: ")[0].splitlines()
    return " ".join(line.removeprefix("# ") for line in lines)


def test_only_a_reply_that_calls_a_booking_made_has_to_name_day_and_hour():
    (criterion,) = (each for each in read_rubric("booking_assistant").criteria if each.id == "names_day_and_hour")
    assert not criterion.required  # where it does not apply, the score is over the others
    replies = {
        "You're booked for Thursday at 3 pm, a cut with Ana.": True,
        "You're all set, see you on 14 May 2026!": False,
        "Which day suits you, and at what time?": None,
        "You're not booked yet: shall I?": None,
        "That time is booked, I'm afraid.": None,
    }
    method = criterion.method
    assert isinstance(method, CheckMethod)
    said = {reply: checked.judge(method.check, reply, **method.settings)[0] for reply in replies}
    assert said == replies
