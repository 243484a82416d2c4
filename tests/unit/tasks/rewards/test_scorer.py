"""Single outputs scored in this process, without a lake; and the Scorer as a reward function."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from gradebook.rubrics.model.errors import (
    BudgetReached,
    EndpointUnavailable,
    InputError,
    JudgeSettingsError,
    OutputsError,
)
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.rewards.scorer import RubricScorer as Scorer
from tests.support.law_over import law_over
from tests.support.loopback_decisions import LoopbackDecisions
from tests.support.loopback_judge import LoopbackJudge
from tests.support.media_samples import SOUND, SeeingJudge, coded, parts_of

LEVELS = [{"id": "bad", "score": 0}, {"id": "good", "score": 1}]
CHECKED = [
    {
        "id": "length",
        "description": "2 to 9 words.",
        "threshold": 1,
        "method": {"type": "check", "check": "length_words", "settings": {"min": 2, "max": 9}},
    },
    {"id": "safe", "description": "No address.", "gate": True, "method": {"type": "check", "check": "pii"}},
]
TONE = {"id": "tone", "description": "Is it kind?", "method": {"type": "judge"}, "levels": LEVELS}


def rubric(*more: dict[str, Any], **others: Any) -> Rubric:
    values = {"id": "reply", "version": "1.0.0", "pass_threshold": 0.5, "criteria": [*CHECKED, *more]}
    return Rubric.model_validate(values | others)


@pytest.fixture
def judge(monkeypatch):
    """A judge that says `good`, unless a text has `bad` in it."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with LoopbackJudge() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield running


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


# -------- scores
def test_a_text_has_a_score_with_its_criteria():
    found = Scorer(rubric()).score("two words")
    assert (found.score, found.is_passed, found.failed_gates) == (1.0, True, ())
    assert (found.criteria["length"].level_id, found.criteria["length"].is_met) == ("pass", True)


def test_a_failed_gate_fails_the_output_and_its_reward():
    found = Scorer(rubric()).score("write to jane@example.org today")
    assert (found.score, found.is_passed, found.failed_gates, found.reward.value) == (1.0, False, ("safe",), 0.0)


def test_a_criterion_without_a_judge_is_unscored_with_a_reason_and_never_0():
    found = Scorer(rubric(TONE)).score("two words")
    assert (found.score, found.score_low, found.score_high, found.reward.value) == (None, 0.5, 1.0, None)
    assert found.unscored == {"tone": "no_judge: the scorer has no judge"}


def test_criteria_that_lack_what_they_compare_with_are_unscored_and_say_so():
    plain = [{"id": name, "description": "?", "method": {"type": name}} for name in ("claims", "similarity")]
    plain += [{"id": "preference", "description": "?", "method": {"type": "preference", "against": "baseline"}}]
    others = [*plain, {"id": "ratings", "description": "?", "method": {"type": "ratings"}, "levels": LEVELS}]
    reasons = Scorer(rubric(*others)).score({"output": "two words", "reference": "r", "context": "c"}).unscored
    assert {name: reason.partition(":")[0] for name, reason in reasons.items()} == {
        "ratings": "needs_people",
        "claims": "no_judge",
        "preference": "no_judge",
        "similarity": "too_few_cases",
    }


def test_a_row_brings_its_own_criteria():
    own = {"id": "named", "description": "Names Ann.", "method": {"type": "check", "check": "contains"}}
    own["method"] = own["method"] | {"settings": {"any": ["Ann"]}}
    found = Scorer(rubric()).score({"output": "Dear Bob", "criteria": [own]})
    assert (found.score, found.criteria["named"].score) == (0.5, 0.0)  # (1 + 0) / 2


def test_a_later_change_of_the_rubric_has_no_effect():
    given = rubric()
    scorer = Scorer(given)
    given.criteria[0].method.settings["min"] = 100
    assert scorer.score("two words").score == 1.0


@law_over(
    ("row", "words"),
    [
        (None, "found a value of type NoneType, expected a text or a row"),
        ({"prompt": "p"}, "output: found nothing, expected text"),
        ({"output": float("nan")}, "output: found the number nan, expected text"),
        ({"output": "x", "context": 3}, "context: found the number 3"),
        ("\ud800", "half of a surrogate pair"),
        ({"output": "x", "criteria": [{"id": "length"}]}, "criteria"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_place(row, words):
    with pytest.raises(OutputsError, match="^outputs:2: ") as refused:
        Scorer(rubric()).score_all(["fine", row])
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [{"deadline_s": 0}, {"budget_usd": float("nan")}, {"on_fault": "stop"}, {"column_map": {"x": "y"}}, {"gates": ""}],
)
def test_a_setting_that_is_wrong_is_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        Scorer(rubric(), **settings)


# -------- a judge
def test_a_judge_is_asked_once_for_equal_texts_with_the_keys_of_a_run(judge):
    with Scorer(rubric(TONE), "m") as scorer:
        first, second = scorer.score("a kind answer"), scorer.score("a kind answer")
    assert first.criteria["tone"].score in (0.0, 1.0)
    assert (first, len(judge.bodies)) == (second, 1)


def test_a_field_of_an_output_in_json_is_all_that_is_scored(judge):
    criteria = [
        {**CHECKED[0], "method": CHECKED[0]["method"] | {"field": "reply"}},
        {**TONE, "method": {"type": "judge", "field": "reply"}},
        {"id": "like", "description": "Alike?", "method": {"type": "similarity", "field": "reply"}},
    ]
    row = {"case_id": "c", "model": "m", "reference": "kind words"}
    rows = [row | {"output": '{"reply": "kind words", "draft": "unseen"}'}, row | {"output": '{"draft": "unseen"}'}]
    with Scorer(Rubric.model_validate({"id": "reply", "version": "1.0.0", "criteria": criteria}), "m") as scorer:
        whole, none = scorer.score_all(rows)
    assert (whole.criteria["length"].score, whole.criteria["tone"].score is None) == (1.0, False)
    assert all(each.reason.startswith("no_field: ") for each in none.criteria.values())
    (body,) = judge.bodies
    assert ("kind words" in str(body), "unseen" in str(body)) == (True, False)


def test_a_batch_is_asked_together_and_stays_in_order(judge):
    texts = [f"answer {place}" for place in range(20)]
    with Scorer(rubric(TONE), "m") as scorer:
        together = scorer.score_all([*texts, texts[0]])
        alone = [scorer.score(text) for text in texts]
    assert together == [*alone, alone[0]]
    assert len(judge.bodies) == 20


def test_scores_in_a_running_loop_and_in_threads_are_the_same(judge):
    async def inside() -> list[Any]:
        return [*await asyncio.gather(*(scorer.ascore(f"answer {n}") for n in range(30))), scorer.score("answer 0")]

    with Scorer(rubric(TONE), "m") as scorer:
        found = asyncio.run(inside())
        by_thread: dict[int, Any] = {}
        threads = [
            threading.Thread(target=lambda n=n: by_thread.update({n: scorer.score(f"answer {n}")})) for n in range(30)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert [by_thread[n] for n in range(30)] == found[:30]
    assert (found[30], len(judge.bodies)) == (found[0], 30)


FORKING = """
import json, os, sys
from gradebook import Scorer

with Scorer(json.loads(sys.argv[1]), "m", deadline_s=60) as scorer:
    before = scorer.score("answer 1")
    if (child := os.fork()) == 0:
        found = scorer.score_all(["answer 1", "answer 2"])
        os._exit(0 if found[0] == before and not any(each.unscored for each in found) else 7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert scorer.score("answer 3").score is not None
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_a_fork_asks_by_itself(judge):
    # From a process of its own: this one has threads of other tests, whose locks a fork would inherit.
    command = [sys.executable, "-c", FORKING, rubric(TONE).model_dump_json(exclude_unset=True)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_late_answer_is_unscored_and_counts_for_the_next_call(judge):
    judge.latency_s = 0.6
    with Scorer(rubric(TONE), "m", deadline_s=0.3) as scorer:
        late = scorer.score("an answer")
        scores = [scorer.score("an answer").score for _ in range(20)]
    assert (late.score, late.unscored["tone"]) == (None, "deadline: the judge did not answer within 0.3 s")
    assert scores[-1] is not None
    assert len(judge.bodies) == 1


def test_a_judge_that_is_down_scores_none_with_a_reason_and_is_asked_again_later(judge, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with Scorer(rubric(TONE), "m") as scorer:
        assert scorer.score("an answer").unscored["tone"].startswith("endpoint_error: http://127.0.0.1:9/v1")
        assert scorer(prompts=["p"], completions=["an answer"]) == [None]
    with Scorer(rubric(TONE), "m", on_fault="raise") as scorer, pytest.raises(EndpointUnavailable):
        scorer.score("an answer")


def dear_judge(judge, folder):
    """File of a judge that costs about a dollar a question."""
    path = folder / "judge.yaml"
    prices = "{input_usd: 1000, output_usd: 1000}"
    path.write_text(f"model: m\nbase_url: {judge.base_url}\nmax_tokens: 100\nprices: {prices}\n", encoding="utf-8")
    return path


@pytest.mark.nightly
def test_the_budget_of_a_job_holds_over_restarts_and_is_spent_by_one_process(judge, tmp_path):
    path = str(dear_judge(judge, tmp_path))
    settings = {"budget_usd": 8.0, "lake": f"sqlite:{tmp_path}/lake/catalog.sqlite", "job": "policy-7"}
    asked = []
    for start in range(3):
        with Scorer(rubric(TONE), path, **settings) as scorer:
            asked.append(sum(scorer.score(f"answer {start} {place}").score is not None for place in range(12)))
            with pytest.raises(InputError, match="whose budget another"):
                Scorer(rubric(TONE), path, **settings)
    assert (asked[0] > 0, asked[1:], len(judge.bodies)) == (True, [0, 0], asked[0])
    with Scorer(rubric(TONE), path, **settings | {"job": "policy-8"}) as scorer:
        assert scorer.score("answer").score is not None


def test_the_budget_holds_over_all_calls(judge, tmp_path):
    path = dear_judge(judge, tmp_path)
    with Scorer(rubric(TONE), str(path), budget_usd=8.0) as scorer:
        found = [scorer.score(f"answer {place}") for place in range(12)]
    spent = [each for each in found if each.score is not None]
    assert 0 < len(spent) < 12
    assert {each.unscored["tone"].partition(":")[0] for each in found if each.score is None} == {"budget_reached"}
    with Scorer(rubric(TONE), str(path), budget_usd=0, on_fault="raise") as scorer, pytest.raises(BudgetReached):
        scorer.score("an answer")


def test_batches_of_an_endpoint_or_a_program_are_refused(judge, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADEBOOK_ALLOW_PROGRAMS", "p {in} {out}")
    for settings, fault in (("mode: batch", "batch requests"), ("batch_command: p {in} {out}", "for each call")):
        path = tmp_path / "judge.yaml"
        path.write_text(f"model: m\nbase_url: {judge.base_url}\n{settings}\n", encoding="utf-8")
        with pytest.raises(JudgeSettingsError, match=fault):
            Scorer(rubric(TONE), str(path))


@pytest.mark.parametrize("settings", ["packing: 2", "replicates: 3", "swap_share: 1"])
def test_each_form_of_judging_gives_a_score(judge, tmp_path, settings):
    path = tmp_path / "judge.yaml"
    path.write_text(f"model: m\nbase_url: {judge.base_url}\n{settings}\n", encoding="utf-8")
    with Scorer(rubric(TONE, TONE | {"id": "clear"}), str(path)) as scorer:
        found = scorer.score_all(["one answer", "another answer"])
    assert [each.unscored for each in found] == [{}, {}]


def test_a_cascade_asks_its_second_judge_where_the_first_is_unsure(judge, tmp_path):
    for name in ("first", "then"):
        (tmp_path / f"{name}.yaml").write_text(f"model: {name}\nbase_url: {judge.base_url}\n", encoding="utf-8")
    path = tmp_path / "judge.yaml"
    path.write_text("cascade: {first: first.yaml, then: then.yaml, when: {criteria: [tone]}}\n", encoding="utf-8")
    with Scorer(rubric(TONE, TONE | {"id": "clear"}), str(path)) as scorer:
        found = scorer.score("an answer")
    assert found.unscored == {}
    assert sorted(body["model"] for body in judge.bodies) == ["first", "then"]


def test_a_decision_model_gets_one_request_a_completion(tmp_path):
    path, criteria = tmp_path / "judge.yaml", [TONE | {"id": f"tone{n}"} for n in range(8)]
    with LoopbackDecisions() as server:
        path.write_text(f"model: m\nform: systemone\nbase_url: {server.base_url}/v1\n", encoding="utf-8")
        with Scorer(rubric(*criteria), str(path)) as scorer:
            found = scorer.score_all([f"answer {n}" for n in range(5)])
    assert [each.unscored for each in found] == [{}] * 5
    assert (server.request_count, server.question_count) == (5, 40)


@pytest.mark.slow
def test_two_scorers_on_one_lake_pay_for_a_judgment_once(judge, tmp_path):
    lake = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    with Scorer(rubric(TONE), "m", lake=lake) as one, Scorer(rubric(TONE), "m", lake=lake) as other:
        first = one.score("an answer")
        assert other.score("an answer") == first
    with Scorer(rubric(TONE), "m", lake=lake) as later:
        assert later.score("an answer") == first
        with Scorer(rubric(TONE), "m", lake=lake) as another:
            second = another.score("another answer")
        assert later.score("another answer") == second  # from the ledger, to which it came meanwhile
    assert len(judge.bodies) == 2


# -------- rewards
def test_a_scorer_is_a_reward_function_of_trl():
    scorer = Scorer(rubric())
    rewards = scorer(
        prompts=[chat("p")] * 3,
        completions=[chat("two words"), "one", [*chat("two words"), {"role": "tool", "content": "x"}, *chat("one")]],
        completion_ids=[[1], [2], [3]],
        trainer_state=object(),
        log_metric=print,
    )
    assert (rewards, scorer.__name__) == ([1.0, 0.0, 0.0], "reply")


def test_columns_of_the_dataset_reach_the_checks_that_read_them():
    method = {"type": "check", "check": "exact_match"}
    values = {"id": "right", "description": "Right.", "method": method}
    scorer = Scorer(rubric(criteria=[values]), column_map={"reference": "answer"})
    assert scorer(prompts=["p"] * 2, completions=["4", "5"], answer=["4", "4"]) == [1.0, 0.0]
    with pytest.raises(InputError, match="answer: found 1 value, expected 2"):
        scorer(prompts=["p"] * 2, completions=["4", "5"], answer=["4"])


def test_a_completion_that_does_not_fit_has_no_reward_and_a_batch_of_them_is_refused():
    scorer = Scorer(rubric())
    assert scorer(prompts=["p"] * 2, completions=["two words", None]) == [1.0, None]
    with pytest.raises(OutputsError, match="output: found null"):
        scorer(prompts=["p"], completions=[None])
    assert scorer(prompts=[], completions=[]) == []


def test_criteria_are_reward_functions_that_share_one_scoring(judge):
    with Scorer(rubric(TONE, TONE | {"id": "watched", "description": "Is it calm?", "reward": False}), "m") as scorer:
        functions = scorer.criteria()
        values = [each(prompts=["p"], completions=["two words"])[0] for each in functions]
    assert [each.__name__ for each in functions] == ["length", "safe", "tone"]
    assert (values[:2], scorer.weights) == ([1.0, 1.0], [1.0, 0.0, 1.0])
    assert len(judge.bodies) == 2


# -------- feedback
def test_feedback_names_what_to_mend_and_nothing_that_is_not_rewarded():
    watched = {
        "id": "calm",
        "description": "Is calm.",
        "method": {"type": "check", "check": "contains"},
        "reward": False,
    }
    watched["method"] = watched["method"] | {"settings": {"any": ["calm"]}}
    scorer = Scorer(rubric(watched))
    found = scorer.feedback("jane@example.org")
    assert [each.criterion_id for each in found.mendings] == ["safe", "length"]
    assert "2 to 9 words." in str(found) and "calm" not in str(found)
    assert scorer.feedback("two words").is_done


# -------- sound
def test_a_judge_that_hears_gets_the_sound_of_a_row_and_text_judges_do_not(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    heard = TONE | {"id": "heard", "method": {"type": "judge", "hears_audio": True}}
    row = {"output": "It is said.", "audio": f"data:audio/wav;base64,{coded(SOUND)}"}
    with SeeingJudge() as hearing:
        monkeypatch.setenv("OPENAI_BASE_URL", hearing.base_url)
        found = Scorer(rubric(TONE, heard), judge="m").score(row)
        deaf = Scorer(rubric(heard), judge="m").score("It is said.")
    assert found.unscored == {}
    kinds = sorted("input_audio" in [part["type"] for part in parts_of(body)] for body in hearing.bodies)
    assert kinds == [False, True]
    assert deaf.unscored == {"heard": "unreadable_media: the row names no sound, expected its `audio`"}


@pytest.mark.nightly
def test_a_warning_about_the_judge_is_not_printed():
    code = "import logging; import gradebook; gradebook.Scorer; logging.getLogger('gradebook.judge').warning('gone')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
