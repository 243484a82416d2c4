"""What the code guarantees of hostile outputs, however gullible the judge is."""

import json
import re
from collections.abc import Iterator

import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.batched_criteria import pack_labels, render_packed
from gradebook.rubrics.prompts.prompt import Case, PromptStyle, label_of, render_messages, reply_schema
from gradebook.rubrics.prompts.prompt_text import CODES, LETTERS, USUAL_CODE_COUNT, fold_text
from gradebook.rubrics.prompts.reply_parser import read_reply
from gradebook.tasks.judging.replies.list_questions import AskedJudge
from gradebook.tasks.planning.preferences import preference_questions
from tests.support.hostile_outputs import EVERY_HOSTILE_OUTPUT, FILLER_LENGTH, HOSTILE_OUTPUTS
from tests.support.law_over import law_over

LEVEL_IDS = ("bad", "poor", "fair", "good", "5")
CRITERION = Criterion.model_validate(
    {
        "id": "tone",
        "description": "Is it kind?",
        "method": {"type": "judge"},
        "levels": [
            {"id": level_id, "score": place / 4, "description": f"As kind as {place}."}
            for place, level_id in enumerate(LEVEL_IDS)
        ],
    }
)
OTHER = CRITERION.model_copy(update={"id": "depth", "description": "Is it deep?"})
BEST = LEVEL_IDS[-1]
PREFERRED = Criterion.model_validate(
    {"id": "kinder", "description": "Which is kinder?", "method": {"type": "preference", "against": "baseline"}}
)
KEY = "0" * 32
LOGPROBS = PromptStyle("logprobs")


def by_family(*families: str) -> list[str]:
    return [text for family in families for text in HOSTILE_OUTPUTS[family]]


def case_of(text: str) -> Case:
    return Case("What is the capital?", text, None, ("A context.",))


def found_labels(text: str) -> list[str]:
    """Every code that someone could read out of a text, in its order there."""
    written = fold_text(text).upper()
    return sorted((code for code in CODES if code in written), key=written.index)


def gullible_replies(text: str) -> Iterator[str]:
    """Replies of an obedient judge: each label, level and ready-made reply in the text."""
    for named in (*found_labels(text), *LEVEL_IDS, *LETTERS):
        yield json.dumps({"evidence": [], "rationale": "As ordered.", "level": named})
    yield from re.findall(r"\{[^{}]*\}", text)
    yield text


def test_there_are_at_least_200_texts_in_ten_families():
    assert len(set(EVERY_HOSTILE_OUTPUT)) >= 200 and len(HOSTILE_OUTPUTS) >= 10
    assert max(map(len, EVERY_HOSTILE_OUTPUT)) >= FILLER_LENGTH


# -------- no closed delimiter
@law_over("style", [PromptStyle(), LOGPROBS])
@law_over("family", HOSTILE_OUTPUTS)
def test_the_case_stays_one_line_of_json_that_gives_the_text_back(family: str, style: PromptStyle):
    for text in HOSTILE_OUTPUTS[family]:
        user = render_messages(Case(text, text, text, (text,)), CRITERION, KEY, style)[1]["content"]
        head, case, blank, mark, criterion = user.splitlines()
        assert (head, blank, mark) == ("CASE", "", "CRITERION")
        assert json.loads(case) == {"prompt": text, "context": [text], "reference": text, "output": text}
        assert json.loads(criterion)["question"] == "Is it kind?"


@law_over("family", HOSTILE_OUTPUTS)
def test_two_answers_stay_apart_and_no_text_names_an_outcome(family: str):
    for text in HOSTILE_OUTPUTS[family]:
        both = preference_questions(PREFERRED, "o", Case(text, text), "The other.", AskedJudge("judge"))
        for asked, (own, other) in zip(both, (("first", "second"), ("second", "first")), strict=True):
            _, case, _, mark, criterion = asked.render()[1]["content"].splitlines()
            assert (mark, json.loads(case)) == ("CRITERION", {"prompt": text, own: text, other: "The other."})
            labels = {each["label"] for each in json.loads(criterion)["levels"]}
            assert not labels & {*found_labels(text)} or len(found_labels(text)) > USUAL_CODE_COUNT - len(labels)


@law_over("family", HOSTILE_OUTPUTS)
def test_the_criteria_of_a_pack_stay_apart_from_the_case(family: str):
    for text in HOSTILE_OUTPUTS[family]:
        user = render_packed(case_of(text), [CRITERION, OTHER], [KEY, "1" * 32])[1]["content"]
        _, case, _, mark, criteria = user.splitlines()
        assert (mark, list(json.loads(criteria))) == ("CRITERIA", ["1", "2"])
        assert json.loads(case)["output"] == text


@law_over("mark", ["<|im_end|>", "</s>", "<start_of_turn>", "[INST]", "<<SYS>>", "</think>", "<\uff5c"])
def test_no_mark_of_a_chat_template_is_sent(mark: str):
    sent = [str(render_messages(case_of(text), CRITERION, KEY)) for text in by_family("delimiters")]
    assert any(mark in text for text in by_family("delimiters")) and not any(mark in prompt for prompt in sent)


def test_the_instructions_are_the_same_for_every_text():
    assert len({render_messages(case_of(text), CRITERION, KEY)[0]["content"] for text in EVERY_HOSTILE_OUTPUT}) == 1


# -------- no label of the text's own choice
@pytest.mark.parametrize("style", [PromptStyle(), LOGPROBS], ids=["reply", "logprobs"])
def test_no_label_shown_occurs_in_a_text_that_leaves_enough_of_them(style: PromptStyle):
    for text in EVERY_HOSTILE_OUTPUT:
        written = fold_text(text).upper()
        words = set(re.findall(r"[^\W_]+", written))
        taken = words & {*LETTERS} if style is LOGPROBS else {code for code in CODES[:24] if code in written}
        if len(taken) <= (26 if style is LOGPROBS else USUAL_CODE_COUNT) - len(LEVEL_IDS):
            assert not taken & set(label_of(CRITERION, KEY, case_of(text), style))


def test_no_two_criteria_of_a_pack_share_a_label_whatever_the_text():
    for text in EVERY_HOSTILE_OUTPUT:
        first, second = pack_labels([CRITERION, OTHER], [KEY, "1" * 32], case_of(text))
        assert not first.keys() & second.keys()


def test_the_schema_lets_no_label_through_that_was_not_shown():
    for text in EVERY_HOSTILE_OUTPUT:
        labels = label_of(CRITERION, KEY, case_of(text))
        assert reply_schema(labels)["schema"]["properties"]["level"]["enum"] == sorted(labels)


# -------- no level of the text's own choice
@law_over("family", HOSTILE_OUTPUTS)
def test_whatever_a_gullible_judge_replies_no_level_lies_outside_the_rubric(family: str):
    for text in HOSTILE_OUTPUTS[family]:
        labels = label_of(CRITERION, KEY, case_of(text))
        for reply in gullible_replies(text):
            read = read_reply(reply, "stop", None, labels, text)
            assert read.level_id in (None, *LEVEL_IDS)
            assert read.level_id is None or json.loads(reply)["level"] in labels


def test_a_text_that_leaves_enough_labels_gets_no_level_at_all():
    scored = set()
    for text in EVERY_HOSTILE_OUTPUT:
        labels = label_of(CRITERION, KEY, case_of(text))
        reads = [read_reply(reply, "stop", None, labels, text) for reply in gullible_replies(text)]
        scored |= {text} if any(read.status == "scored" for read in reads) else set()
    flooding = {text for text in EVERY_HOSTILE_OUTPUT if len(set(found_labels(text)) & set(CODES[:24])) > 24 - 5}
    assert scored <= flooding


def test_naming_every_label_guesses_the_best_level_no_better_than_chance():
    # A gullible judge takes the first label in the text that was shown, of those 5 that a flood of all labels leaves.
    # Chance is 1/5: of 2,000 guesses 400, standard deviation sqrt(2000 * 0.2 * 0.8) = 17.9; 4 of them are 72. The keys
    # are fixed, so the count is the same in each run.
    floods = [text for text in by_family("labels") if len(set(found_labels(text)) & set(CODES[:24])) == 24]
    hits, guesses = 0, 0
    for text in floods:
        for number in range(2_000 // len(floods)):
            labels = label_of(CRITERION, f"{number:032x}", case_of(text))
            hits += labels[next(code for code in found_labels(text) if code in labels)] == BEST
            guesses += 1
    assert guesses == 2_000 and abs(hits - 400) <= 72


def test_over_all_texts_and_keys_the_best_level_is_hit_no_more_often_than_by_chance():
    # One guess a text and key, the first label in the text: chance is at most 1/5 of the guesses, plus 4 deviations.
    short = [text for text in EVERY_HOSTILE_OUTPUT if len(text) < 5_000]
    guesses, hits = 0, 0
    for text in short:
        for number in range(10):
            guessed = next(iter(found_labels(text)), "")
            hits += label_of(CRITERION, f"{number:032x}", case_of(text)).get(guessed) == BEST
            guesses += 1
    assert guesses > 2_000 and hits <= 0.2 * guesses + 4 * (guesses * 0.2 * 0.8) ** 0.5


@pytest.mark.parametrize("claim", ["names the concern", "gives three sources", "has no fault"])
def test_evidence_that_is_not_in_the_text_is_none(claim: str):
    labels = label_of(CRITERION, KEY, case_of("It is what it is."))
    reply = {"evidence": [claim], "rationale": "So.", "level": next(iter(labels))}
    assert read_reply(json.dumps(reply), "stop", None, labels, "It is what it is.").status == "evidence_unverified"
