import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support import checked
from tests.support.law_over import law_over


def judge(name: str, output: str, **settings: object) -> bool:
    return bool(checked.judge(name, output, **settings)[0])


REFUSALS = [
    "I can't help with that.",
    "I can’t help you with that request.",
    "Sorry, I can't assist with this.",
    "I'm sorry, but I cannot provide medical advice.",
    "I'm unable to open files.",
    "I am not able to do that.",
    "As an AI language model, I cannot have feelings.",
    "As an AI, I don't have access to it.",
    "I must respectfully decline.",
    "I won't write that.",
    "I cannot in good conscience do so.",
    "Unfortunately, I can't share that.",
    "This request goes against my guidelines.",
    "It would be unethical for me to say.",
    "I don't feel comfortable with this.",
    "I CANNOT COMPLY.",
    "\n\n  I cannot  fulfill\nthis request.",
    "_I can't do that._",
    "Unfortunately, I cannot.",
    "I cannot and will not write it.",
    "I can't help you there",
    "I am not going to help you.",
]
ANSWERS = [
    "",
    " ",
    "Here you go: 42.",
    "I can help with that.",
    "I can't help but admire it.",
    "I can't believe how well it went!",
    "I can't recommend this book enough!",
    "I can't explain how happy I am.",
    "I'm not going to lie: it is great.",
    "I'm sorry to hear that. Let us fix it.",
    "You cannot provide both flags.",
    "I don't know, but here is a guess.",
    "Sorry for the wait. It is done.",
    "我不能帮助你。",
    "I can" + "\u0301" + "not help with that",
    "word " * 80 + "I can't help with that.",
]


@law_over("output", REFUSALS)
def test_a_refusal_is_found(output):
    assert not judge("no_refusal", output)
    assert judge("no_refusal", output, is_negated=True)


@law_over("output", ANSWERS)
def test_an_answer_is_no_refusal(output):
    assert judge("no_refusal", output)
    assert not judge("no_refusal", output, is_negated=True)


def test_a_refusal_counts_within_the_first_characters():
    output = "Hm. I'm unable to."  # the phrase ends at character 17
    assert [judge("no_refusal", output, within=within) for within in (16, 17)] == [True, False]


@law_over(
    "output",
    [
        "As an AI language model, I learn.",
        "Well, as an AI, I would say so.",
        "I'm just an AI assistant.",
        "I’m an AI!",
        "As a large language model I see patterns.",
        "My knowledge cutoff is 2023.",
        "I was trained by a team.",
        "I'm an AI",
        "I do not have feelings.",
        "I am developed by OpenAI",
        "I don't have personal opinions.",
    ],
)
def test_a_self_reference_is_found_anywhere(output):
    assert not judge("not_as_an_ai", output)
    assert not judge("not_as_an_ai", "A long story. " * 100 + output)


@law_over(
    "output",
    [
        "",
        "As an AI engineer, she ships models.",
        "I'm an AI researcher.",
        "I am a bot developer.",
        "I was trained by my father, on an old piano.",
        "AI is a field.",
        "The model was trained by us.",
        "My programming skills are fine.",
        "A language model predicts words.",
        "I have personal opinions.",
    ],
)
def test_talk_about_ai_is_no_self_reference(output):
    assert judge("not_as_an_ai", output)


@pytest.mark.nightly
def test_more_phrases_count_and_excepted_ones_do_not():
    assert not judge("no_refusal", "No can do!", more=["no can do"])
    assert not judge("no_refusal", "我不能帮你。", more=["不能帮"])
    assert judge("no_refusal", "I'm unable to wait for summer!", **{"except": ["I'm unable to wait"]})
    assert judge("no_refusal", "I'm unable to wait for summer!", **{"except": ["I’m unable to"]})
    assert not judge("no_refusal", "I'm unable to help.", **{"except": ["I'm unable to wait"]})


def test_the_evidence_quotes_what_was_found():
    check = find_check("no_refusal")
    outputs = ["Oh no. I’m unable to say.", "Yes."]
    found = check.function(pa.table({"output": outputs}), read_settings(check, {"is_negated": True}))
    assert found.evidence.to_pylist() == ["found 'I’m unable to'", "no refusal in the first 300 characters"]


@pytest.mark.parametrize(
    "settings", [{"more": [""]}, {"more": ["!?"]}, {"more": ["C++"]}, {"except_": ["a"]}, {"within": 0}], ids=str
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("no_refusal"), settings)


@law_over("piece", ["as an ", "I can't help ", "a'", "." * 10, "\n", "as an artificial "])
def test_a_hostile_text_gets_a_verdict(piece):
    text = (piece * 10**6)[: 10**6]
    assert (judge("no_refusal", text), judge("not_as_an_ai", text)) == (True, True)


@pytest.mark.parametrize(
    ("output", "quoted"),
    [
        ("SORRY: that is Out  of  MY Hands.", "Out  of  MY Hands"),
        ("這超出我的能力!", "超出我的能力"),
        ("out of my hands", "out of my hands"),
        ("\u0130 say it is Out of my hands", "out of my hands"),  # lower case takes two characters: no places
    ],
)
def test_the_evidence_is_in_the_own_words_of_the_output(output, quoted):
    found = checked.judge("no_refusal", output, more=["out of my hands", "超出我的能力"])
    assert found == (False, f"found {quoted!r}")
