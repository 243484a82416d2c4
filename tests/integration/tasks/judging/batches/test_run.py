"""Batches, against a real server on loopback: half the price, whatever the endpoint does."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.files import Limits
from gradebook.tasks.judging.batches.job import BatchJob
from gradebook.tasks.judging.batches.run import ask_in_batches
from gradebook.tasks.judging.batches.state import Intent
from gradebook.tasks.judging.budget import BatchBudget
from gradebook.tasks.judging.transport.http_client import MOST_BODY_BYTES
from tests.support.asked import CANARY
from tests.support.batch_jobs import (
    A_SHARD,
    ALL_KEYS,
    COUNT,
    PACE,
    billed_usd,
    journaled,
    make_job,
    questions_of,
    spent_usd,
)
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly


@pytest.fixture
def job(judge: LoopbackJudge, tmp_path: Path) -> BatchJob:
    return make_job(judge, tmp_path)


def endings(intents: tuple[Intent, ...]) -> list[str | None]:
    return [intent.ending for intent in intents]


# -------- what a batch brings
def test_every_question_is_answered_in_a_batch_and_none_online(job: BatchJob, judge: LoopbackJudge):
    ask_in_batches(job)
    rows = journaled(job)
    assert (sorted(rows["request_key"].to_pylist()), set(rows["status"].to_pylist())) == (sorted(ALL_KEYS), {"scored"})
    assert (len(judge.batches.batches), judge.request_count) == (1, 0)


def test_no_header_of_another_endpoint_is_sent(job: BatchJob, judge: LoopbackJudge, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer another\nX-Secret: another")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj_1")
    judge.batches.script = ("echo",)
    ask_in_batches(job)
    (reply, *_) = journaled(job)["reply"].to_pylist()
    assert "'OpenAI-Project': 'proj_1'" in reply
    assert "X-Secret" not in reply


def test_a_batch_costs_half_in_the_journal_and_in_the_budget(job: BatchJob, judge: LoopbackJudge):
    ask_in_batches(job)
    assert sum(journaled(job)["cost_usd"].to_pylist()) == pytest.approx(billed_usd(judge))
    assert spent_usd(job) == pytest.approx(billed_usd(judge))


def test_a_reply_is_of_the_batch_tier_and_was_asked_once(job: BatchJob, judge: LoopbackJudge):
    judge.service_tier = "default"
    ask_in_batches(job)
    (row, *_) = journaled(job).to_pylist()
    assert (row["service_tier"], row["attempts"], row["model_returned"]) == ("batch", 1, "m-2026")
    assert row["latency_ms"] == 2_000  # the endpoint says that it took 2 s


def test_a_line_has_the_body_of_a_request_online_but_for_its_tier(job: BatchJob, judge: LoopbackJudge):
    ask_in_batches(replace(job, settings=job.settings.model_copy(update={"service_tier": "flex", "seed": 7})))
    (line, *_) = judge.batches.lines
    assert (line["custom_id"], line["method"], line["url"]) == (ALL_KEYS[0], "POST", "/v1/chat/completions")
    body = line["body"]
    assert (body["model"], body["max_tokens"], body["seed"], "service_tier" in body) == ("m", 100, 7, False)


def test_equal_questions_are_one_line(job: BatchJob, judge: LoopbackJudge):
    ask_in_batches(replace(job, questions_of=lambda _shard: questions_of(0)))
    assert len(judge.batches.lines) == A_SHARD


def test_a_batch_says_whose_it_is(job: BatchJob, judge: LoopbackJudge):
    (intent,) = ask_in_batches(job)
    (batch,) = judge.batches.batches.values()
    assert batch["metadata"] == {"gradebook_intent": intent.intent_id, "gradebook_run": "run"}


def test_no_file_is_left_behind_at_the_endpoint_or_here(job: BatchJob, judge: LoopbackJudge):
    (intent,) = ask_in_batches(job)
    assert judge.batches.files == {}
    assert {path.name for path in job.folder.iterdir()} == {"record.jsonl", f"{intent.intent_id}.keys"}


@pytest.mark.parametrize(
    ("limits", "file_count"), [(Limits(5), 3), (Limits(COUNT), 1), (Limits(byte_count=3_000), 12), (Limits(1), 12)]
)
def test_a_file_is_cut_at_its_limits(job: BatchJob, judge: LoopbackJudge, limits: Limits, file_count: int):
    ask_in_batches(replace(job, limits=limits))
    assert (len(judge.batches.batches), len(judge.batches.lines)) == (file_count, COUNT)  # a line has 1.6 kB
    assert journaled(job).num_rows == COUNT


def test_a_request_that_is_larger_than_a_file_is_left_to_be_asked_online(job: BatchJob, judge: LoopbackJudge):
    assert ask_in_batches(replace(job, limits=Limits(byte_count=100))) == ()


# -------- what endpoints do to the replies
@pytest.mark.parametrize("word", ["shuffled", "twice", "stranger"])
def test_replies_are_found_by_their_id(job: BatchJob, judge: LoopbackJudge, word: str):
    judge.batches.script = (word,)
    ask_in_batches(job)
    assert sorted(journaled(job)["request_key"].to_pylist()) == sorted(ALL_KEYS)
    assert spent_usd(job) == pytest.approx(billed_usd(judge))


def test_a_usage_of_no_tokens_counts_at_its_worst_and_is_no_cost(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("false_usage",)
    (intent,) = ask_in_batches(job)
    assert journaled(job)["cost_usd"].to_pylist() == [None] * COUNT
    assert spent_usd(job) == pytest.approx(COUNT * intent.largest_usd)


def test_a_line_that_cant_be_read_counts_at_its_worst_and_is_left_open(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("torn",)
    (intent,) = ask_in_batches(job)
    rows = journaled(job)
    assert rows.num_rows == COUNT - 1
    assert spent_usd(job) == pytest.approx(sum(rows["cost_usd"].to_pylist()) + intent.largest_usd)


@pytest.mark.parametrize(("word", "reply_count"), [("cut", COUNT // 2), ("foreign", 0)])
def test_requests_without_a_line_of_their_own_count_at_their_worst(
    job: BatchJob, judge: LoopbackJudge, word, reply_count
):
    judge.batches.script = (word,)
    (intent,) = ask_in_batches(job)
    rows = journaled(job)
    assert (rows.num_rows, judge.batches.answered.total()) == (reply_count, COUNT)
    lost_usd = (COUNT - reply_count) * intent.largest_usd
    assert spent_usd(job) == pytest.approx(sum(rows["cost_usd"].to_pylist()) + lost_usd)
    assert spent_usd(job) >= billed_usd(judge)


@pytest.mark.parametrize(("word", "ending"), [("partial", "completed"), ("expired", "expired")])
def test_what_was_done_is_kept_and_the_rest_left_open(job: BatchJob, judge: LoopbackJudge, word: str, ending: str):
    judge.batches.script = (word,)
    intents = ask_in_batches(job)
    assert endings(intents) == [ending]
    assert sorted(journaled(job)["request_key"].to_pylist()) == sorted(judge.batches.answered)
    assert len(judge.batches.answered) == COUNT // 2
    # HTTP 500 may be billed; a request that expired was not executed.
    possible_usd = COUNT // 2 * intents[0].largest_usd if word == "partial" else 0.0
    assert spent_usd(job) == pytest.approx(billed_usd(judge) + possible_usd)


def test_a_batch_that_fails_validation_costs_nothing_and_says_why(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("failed",)
    (intent,) = ask_in_batches(job)
    assert (intent.ending, intent.reason, spent_usd(job)) == ("failed", "line 1 is no request", 0)


def test_a_reply_without_usage_counts_at_its_worst(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("no_usage",)
    (intent,) = ask_in_batches(job)
    assert journaled(job)["cost_usd"].to_pylist() == [None] * COUNT
    assert spent_usd(job) == pytest.approx(COUNT * intent.largest_usd)


def test_the_key_is_in_nothing_that_a_batch_leaves(job: BatchJob, judge: LoopbackJudge, tmp_path: Path):
    judge.batches.script = ("echo",)
    ask_in_batches(job)
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("[key]" in text for text in texts)
    assert not any(CANARY in text for text in texts)


# -------- what endpoints do to requests
@pytest.mark.parametrize(  # places: upload, create, retrieve, content, delete twice, nothing
    ("place", "fault"),
    [*((place, "500") for place in range(7)), *nightly((place, ("429", "drop")[place % 2]) for place in range(7))],
)
def test_what_passes_is_asked_again(job: BatchJob, judge: LoopbackJudge, place: int, fault: str):
    judge.batches.faults = [""] * place + [fault]
    ask_in_batches(job)
    assert journaled(job).num_rows == COUNT
    assert (len(judge.batches.batches), max(judge.batches.answered.values())) == (1, 1)


def test_a_batch_whose_beginning_went_unanswered_is_not_begun_again(job: BatchJob, judge: LoopbackJudge):
    judge.batches.faults = ["", "lost"]
    ask_in_batches(job)
    assert (len(judge.batches.batches), judge.batches.calls["GET batches"]) == (1, 2)  # the list, and the batch


def test_an_endpoint_without_batches_is_named(job: BatchJob, judge: LoopbackJudge):
    judge.batches.is_there = False
    with pytest.raises(EndpointUnavailable, match=r"127\.0\.0\.1.*took no batch.*HTTP 404"):
        ask_in_batches(job)


@pytest.mark.parametrize("fault", ["400", "401"])
def test_a_refusal_does_not_tell_the_key(job: BatchJob, judge: LoopbackJudge, fault: str):
    judge.batches.faults = [fault]
    with pytest.raises(EndpointUnavailable) as raised:
        ask_in_batches(job)
    assert CANARY not in str(raised.value)


def test_an_endpoint_that_is_gone_ends_the_wait(job: BatchJob, judge: LoopbackJudge):
    judge.batches.faults = ["", "", *["500"] * 1_000]
    settings = job.settings.model_copy(update={"patience_s": 0.005})  # 20 times as long: 0.1 s
    with pytest.raises(EndpointUnavailable, match="the same command resumes"):
        ask_in_batches(replace(job, settings=settings))
    judge.batches.faults = []
    ask_in_batches(job)
    assert (len(judge.batches.batches), journaled(job).num_rows) == (1, COUNT)


def test_a_batch_that_the_endpoint_has_forgotten_counts_at_its_worst(job: BatchJob, judge: LoopbackJudge):
    judge.batches.faults = ["", "", "404", "404", "404"]
    (intent,) = ask_in_batches(job)
    assert (intent.ending, spent_usd(job)) == ("lost", pytest.approx(intent.worst_usd))


# -------- money
def test_what_does_not_fit_the_budget_is_not_sent(job: BatchJob, judge: LoopbackJudge):
    (whole,) = ask_in_batches(replace(job, folder=job.folder / "other", budget_record=job.folder / "other.jsonl"))
    judge.batches.lines.clear()
    ask_in_batches(replace(job, budget_usd=whole.worst_usd * 0.6))
    assert 0.4 * COUNT < len(judge.batches.lines) <= 0.6 * COUNT


def test_a_budget_that_is_used_up_sends_nothing(job: BatchJob, judge: LoopbackJudge):
    assert ask_in_batches(replace(job, budget_usd=0.0)) == ()
    assert judge.batches.calls.total() == 0


def test_without_a_price_nothing_is_counted(job: BatchJob, judge: LoopbackJudge):
    ask_in_batches(replace(job, price=None))
    assert (journaled(job)["cost_usd"].null_count, job.budget_record.exists()) == (COUNT, False)


def test_an_older_ticket_keeps_what_was_noted_of_it(tmp_path: Path):
    with BatchBudget(1.0, tmp_path / "budget.jsonl") as money:
        money.reserve(1, 0.5)
        money.settle(1, 0.25)
        money.reserve(1, 0.5)
        assert (money.left_usd, money.next_ticket) == (0.75, 2)


# -------- the deadline
def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def hasty(job: BatchJob, deadline_s: float, **changes: Any) -> BatchJob:
    pace = replace(PACE, margin_s=0.1, **changes)
    return replace(job, deadline=soon(deadline_s), pace=pace)


def test_near_the_deadline_a_batch_is_cancelled_and_what_it_has_done_is_kept(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("endless",)
    intents = ask_in_batches(hasty(job, 1.0))
    assert (endings(intents), journaled(job).num_rows) == (["cancelled"], COUNT // 2)
    assert spent_usd(job) == pytest.approx(billed_usd(judge))


def test_a_tenth_of_a_long_time_is_left_to_ask_the_rest(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("endless",)
    deadline = soon(4)
    ask_in_batches(replace(hasty(job, 0, margin_rate=0.95), deadline=deadline))
    assert datetime.now(UTC) < deadline - timedelta(seconds=1)


def test_with_too_little_time_nothing_is_sent(job: BatchJob, judge: LoopbackJudge):
    assert ask_in_batches(hasty(job, 0.15)) == ()


def test_a_batch_past_its_window_is_cancelled(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("endless",)
    assert endings(ask_in_batches(replace(job, pace=replace(PACE, window_s=0.05)))) == ["cancelled"]


def test_a_batch_that_will_not_be_cancelled_ends_the_run(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("stuck",)
    with pytest.raises(EndpointUnavailable, match="cancelled and has not ended"):
        ask_in_batches(replace(job, pace=replace(PACE, window_s=0.0, cancel_s=0.05)))


@pytest.mark.parametrize("tries", ["500", "drop"])
def test_a_file_that_cant_be_uploaded_in_time_is_left_to_be_asked_online(
    job: BatchJob, judge: LoopbackJudge, tries: str
):
    judge.batches.faults = [tries] * 1_000
    assert endings(ask_in_batches(hasty(job, 0.4))) == ["not_sent"]
    assert {path.name for path in job.folder.iterdir()} == {"record.jsonl"}


def test_a_batch_whose_beginning_goes_unanswered_ends_the_run_at_the_deadline(job: BatchJob, judge: LoopbackJudge):
    judge.batches.faults = ["", *["500"] * 1_000]
    with pytest.raises(EndpointUnavailable, match="no answer until the deadline.*the same command resumes"):
        ask_in_batches(hasty(job, 0.4))


def test_a_batch_that_will_not_be_cancelled_ends_the_run_at_the_deadline(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("stuck",)
    with pytest.raises(EndpointUnavailable, match="cancelled and has not ended"):
        ask_in_batches(hasty(job, 0.4, cancel_s=600.0))


def test_a_batch_that_is_cancelled_after_the_deadline_is_not_waited_for(job: BatchJob, judge: LoopbackJudge):
    def take_long(_number: int, moment: str) -> bool:
        if moment == "after":
            time.sleep(0.15)  # upload, begin, look and cancel: the last ends past the deadline
        return False

    judge.batches.script, judge.batches.on_call = ("stuck",), take_long
    with pytest.raises(EndpointUnavailable, match="cancelled and has not ended"):
        ask_in_batches(hasty(job, 0.5, cancel_s=600.0))


def test_no_further_file_is_sent_when_the_time_is_over(job: BatchJob, judge: LoopbackJudge):
    def take_long(number: int, moment: str) -> bool:
        if (number, moment) == (2, "after"):
            time.sleep(1.1)
        return False

    judge.batches.on_call = take_long
    ask_in_batches(replace(hasty(job, 1.2), limits=Limits(1)))
    assert len(judge.batches.batches) == 1
    assert not list(job.folder.glob("*.requests.jsonl"))


# -------- what endpoints say
def tell(judge: LoopbackJudge, **told: Any) -> None:
    """Let the endpoint say something of its batch at the first look; what it says beside is gone at the second."""

    def on_call(number: int, moment: str) -> bool:
        for batch in judge.batches.batches.values():
            if (number, moment) == (3, "before"):
                batch.update(told)
            elif moment == "before":
                batch.pop("padding", None)
        return False

    judge.batches.on_call = on_call


def test_the_key_is_not_in_the_reason_that_an_endpoint_gives(job: BatchJob, judge: LoopbackJudge, tmp_path: Path):
    tell(judge, status="failed", errors={"data": [{"message": f"bad key {CANARY}"}]})
    (intent,) = ask_in_batches(job)
    assert intent.reason == "bad key [key]"
    assert CANARY not in (job.folder / "record.jsonl").read_text()


def test_a_key_in_escapes_is_in_nothing_that_a_batch_leaves(job: BatchJob, judge: LoopbackJudge):
    text = json.dumps({"evidence": [], "rationale": CANARY, "level": "x"}).replace("-", "\\u002d")
    judge.writer = lambda _body: text
    ask_in_batches(job)
    rows = journaled(job).to_pylist()
    assert "[key]" in rows[0]["reply"]
    assert not any("canary" in str(row) for row in rows)


def test_an_answer_too_large_to_be_one_is_asked_for_again(job: BatchJob, judge: LoopbackJudge):
    tell(judge, padding=" " * (MOST_BODY_BYTES + 1))
    ask_in_batches(job)
    assert (judge.batches.calls["GET batches"], journaled(job).num_rows) == (2, COUNT)
