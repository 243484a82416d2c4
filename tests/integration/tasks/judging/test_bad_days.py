"""Bad days of an endpoint, over loopback: nothing is lost that asking again could save, and what is lost is named."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import BudgetReached, EndpointUnavailable
from gradebook.tasks.judging.replies.journal import settled_journals
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.probe import probe
from tests.support.asked import CANARY, ask, ask_some, journaled, self_signed
from tests.support.loopback_judge import LoopbackJudge

# Replies that say no level, each with its usage.
USELESS = (
    *("prose", "half a thought", "wrong enum", "level id", "level list", "missing key"),
    *("key twice", "nested", "null", "null message", "odd parts"),
)
UNREADABLE = ("half a body", "a list", "no utf-8")  # not even their usage can be read
ODD_BUT_READ = (
    *("fence", "prose around", "think", "think closed", "harmony", "parts", "output parts", "two choices"),
    *("extra key", "half a surrogate", "odd names"),
)
# Errors within an HTTP 200, each with the beginning of its reason.
ERRORS_IN_200 = {
    "error object": "HTTP 200 with the error 502: overloaded",
    "error of a choice": "HTTP 200 with the error 502: upstream",
    "broken off": "HTTP 200 with the error 502: finish_reason error",
    "no choices": "HTTP 200 with the error 502: no choices",
    "null choices": "HTTP 200 with the error 502: no choices",
    "limit in 200": "HTTP 200 with the error 429: Rate limit exceeded upstream",
}
ODD_USAGES = (
    *("usage below 0", "usage huge", "usage a float", "usage a text", "usage a half", "usage nan"),
    *("usage a list", "usage 0", "usage too low", "usage of no reply"),
)


@pytest.fixture(autouse=True)
def no_key_in_a_journal(tmp_path: Path) -> Iterator[None]:
    yield
    assert CANARY not in "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))


def paid(judge: LoopbackJudge) -> float:
    """Cost of the tokens that the server counted, at a millionth of a dollar per token."""
    return (judge.prompt_tokens + judge.completion_tokens) * 1e-6


# -------- useless replies
@pytest.mark.parametrize("fault", USELESS)
def test_a_reply_without_a_level_is_paid_for_and_unscored(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault, fault]
    answer = ask(judge, tmp_path)[0]
    assert (answer.status, answer.reason, answer.level_id) == ("unscored", "parse_error", None)
    assert (judge.request_count, journaled(tmp_path)["status"].to_pylist()) == (2, ["parse_error"] * 2)
    assert (
        answer.cost_usd == pytest.approx(sum(journaled(tmp_path)["cost_usd"].to_pylist())) == pytest.approx(paid(judge))
    )
    assert CANARY not in repr(answer)


@pytest.mark.parametrize("fault", ["prose", "wrong enum", "key twice", "half a body", "gzip bomb"])
def test_a_useless_reply_loses_nothing_where_the_next_is_good(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault]
    assert (ask(judge, tmp_path)[0].status, judge.request_count) == ("scored", 2)
    assert journaled(tmp_path)["status"].to_pylist() == ["parse_error", "scored"]


@pytest.mark.parametrize("fault", ERRORS_IN_200)
def test_an_error_within_a_reply_is_asked_again_as_its_status_is(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault]
    assert (ask(judge, tmp_path)[0].status, judge.request_count) == ("scored", 2)
    assert journaled(tmp_path)["status"].to_pylist() == ["scored"]


@pytest.mark.parametrize("fault", [fault for fault in ERRORS_IN_200 if fault != "limit in 200"])
def test_an_error_within_every_reply_is_the_endpoints_fault(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault] * 2
    assert (ask(judge, tmp_path)[0].reason or "").startswith(f"endpoint_error: {ERRORS_IN_200[fault]}")


@pytest.mark.parametrize("fault", UNREADABLE)
def test_a_body_that_is_no_json_has_an_unknown_price_and_not_none(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault, fault]
    answer = ask(judge, tmp_path)[0]
    assert (answer.reason, answer.cost_usd, judge.request_count) == ("parse_error", None, 2)
    kept = journaled(tmp_path)
    assert (kept["cost_usd"].to_pylist(), kept["prompt_tokens"].to_pylist()) == ([None, None], [None, None])


@pytest.mark.parametrize("fault", ODD_BUT_READ)
def test_an_odd_reply_that_can_be_read_counts(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault]
    assert (ask(judge, tmp_path)[0].status, judge.request_count) == ("scored", 1)
    assert journaled(tmp_path)["prompt_tokens"].to_pylist() == [judge.prompt_tokens]


@pytest.mark.parametrize("fault", ODD_USAGES)
def test_a_usage_that_is_none_is_an_unknown_price(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault]
    answer = ask(judge, tmp_path)[0]
    assert (answer.status, answer.cost_usd, judge.request_count) == ("scored", None, 1)
    assert journaled(tmp_path)["cost_usd"].to_pylist() == [None]


@pytest.mark.parametrize("fault", ["usage below 0", "usage nan", "usage 0", "half a body"])
def test_a_reply_without_its_tokens_counts_as_the_most_against_a_budget(
    judge: LoopbackJudge, tmp_path: Path, fault: str
):
    judge.faults = [fault] * 99
    # At most 0.0081 a request, and about 0.0005 where its tokens are told: two fit into 0.02 one way, nine the other.
    asked = ask_some(judge, tmp_path, range(9), budget_usd=0.02, max_in_flight=1)
    assert (type(asked.fault), judge.request_count) == (BudgetReached, 2)


def test_names_that_no_file_takes_are_cleaned(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["odd names"]
    ask(judge, tmp_path)
    kept = journaled(tmp_path).to_pylist()[0]
    assert (len(kept["model_returned"]) <= 200, kept["model_returned"][:4]) == (True, "m?m?")
    assert kept["service_tier"] == "?"


def test_log_probabilities_that_are_no_number_are_no_level(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["nan", "nan"]
    answer = ask(judge, tmp_path, mode="logprobs")[0]
    assert (answer.reason, answer.distribution, judge.request_count) == ("parse_error", None, 2)
    assert answer.cost_usd == pytest.approx(paid(judge))


def test_a_reply_that_unpacks_to_a_flood_is_cut_off(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["gzip bomb"]  # 128 MiB
    ask(judge, tmp_path / "first")  # the server packs it now
    judge.faults = ["gzip bomb", "gzip bomb"]
    tracemalloc.start()
    try:
        answer = ask(judge, tmp_path / "second")[0]
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (answer.status, answer.reason) == ("unscored", "parse_error")
    assert most_bytes < 60 * 2**20
    assert max(map(len, journaled(tmp_path / "second")["reply"].to_pylist())) <= 1_000_000


# -------- connections
@pytest.mark.parametrize("fault", ["drop", "drop in headers", "drop in body", "no gzip"])
def test_a_connection_that_breaks_is_asked_again(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault]
    assert (ask(judge, tmp_path)[0].status, judge.request_count) == ("scored", 2)
    assert len(journaled(tmp_path)) == 1


@pytest.mark.parametrize("fault", ["drop in headers", "drop in body"])
def test_a_connection_that_keeps_breaking_is_named(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault, fault]
    answer = ask(judge, tmp_path)[0]
    assert (answer.status, answer.reason) == ("unscored", "endpoint_error: the connection was dropped")
    assert list(settled_journals(tmp_path)) == []


def test_a_reply_that_trickles_is_given_up_when_its_time_is_over(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["trickle", "trickle"]  # some 400 bytes, one each 0.05 s: each read is in time, 20 s in all
    answer = ask(judge, tmp_path, timeout_s=0.2)[0]
    assert answer.reason == "endpoint_error: no reply within 0.2 s"


@pytest.mark.slow
def test_one_in_twenty_errors_lose_nothing_of_400(judge: LoopbackJudge, tmp_path: Path):
    judge.fault_rates = {"500": 0.03, "drop": 0.01, "drop in body": 0.01}
    answers = ask(judge, tmp_path, count=400, max_attempts=6, patience_s=30)
    assert {answer.status for answer in answers} == {"scored"} and len(answers) == 400
    keys = journaled(tmp_path)["request_key"].to_pylist()
    assert (len(keys), len(set(keys))) == (400, 400) and judge.request_count > 400


def test_a_redirect_is_not_followed_with_the_prompt_and_the_key(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["redirect"]
    with LoopbackJudge() as stranger:
        judge.redirect_to = f"{stranger.base_url}/chat/completions?{CANARY}"
        with pytest.raises(EndpointUnavailable, match=r"HTTP 307: found a redirect to http://127.*\?\[key\]"):
            ask(judge, tmp_path)
    assert (judge.request_count, stranger.request_count) == (1, 0)


def test_a_certificate_that_nobody_vouches_for_ends_the_run(judge: LoopbackJudge, tmp_path: Path):
    impostor = LoopbackJudge()
    impostor.tls = self_signed(tmp_path)
    with impostor:
        with pytest.raises(EndpointUnavailable, match=r"https://127.*certificate is not accepted \(self.signed"):
            ask(impostor, tmp_path)
        settings = JudgeSettings(model="m", base_url=impostor.base_url)
        with pytest.raises(EndpointUnavailable, match="certificate is not accepted"):
            probe(settings, read_keys(settings, {"OPENAI_API_KEY": CANARY}))
    assert impostor.request_count == 0


def test_a_host_that_no_name_server_knows_is_named(judge: LoopbackJudge, tmp_path: Path):
    judge.base_url = "http://judge.invalid/v1"
    with pytest.raises(EndpointUnavailable, match=r"judge\.invalid/v1: .* its host name was not found"):
        ask(judge, tmp_path, count=4, patience_s=0)


# -------- the end, in the middle
def test_an_endpoint_gone_for_good_leaves_what_was_judged(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["fine"] * 20 + ["503"] * 999
    asked = ask_some(judge, tmp_path, range(60), max_in_flight=4, max_attempts=100)
    assert isinstance(asked.fault, EndpointUnavailable)
    assert [answer.status for answer in asked.answers].count("scored") == judge.answered_count == 20
    assert {answer.reason for answer in asked.answers} <= {None, "endpoint_error: HTTP 503: scripted Bearer [key]"}
    assert journaled(tmp_path)["status"].to_pylist() == ["scored"] * 20


def test_what_was_left_is_all_that_is_asked_when_the_endpoint_is_back(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["fine"] * 20 + ["drop"] * 999
    before = ask_some(judge, tmp_path, range(60), max_in_flight=4, max_attempts=100).answers
    judge.faults = []
    judged = {int(answer.question.output_id, 16) for answer in before if answer.status == "scored"}
    ask_some(judge, tmp_path, sorted({*range(60)} - judged))
    keys = journaled(tmp_path)["request_key"].to_pylist()
    assert (len(judged), len(keys), len(set(keys))) == (20, 60, 60)


def test_a_key_that_expires_in_the_middle_ends_the_run_and_loses_nothing(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["fine"] * 20 + ["401"] * 999
    asked = ask_some(judge, tmp_path, range(60), max_in_flight=1)
    assert isinstance(asked.fault, EndpointUnavailable)
    assert "OPENAI_API_KEY" in str(asked.fault) and CANARY not in str(asked.fault)
    assert (len(journaled(tmp_path)), judge.request_count) == (20, 21)


@pytest.mark.parametrize("fault", ["413", "context too long"])
def test_a_prompt_that_is_too_long_is_unscored_with_what_the_endpoint_says(
    judge: LoopbackJudge, tmp_path: Path, fault: str
):
    judge.faults = ["fine", fault]
    answers = ask(judge, tmp_path, count=3, max_in_flight=1)
    assert [answer.status for answer in answers] == ["scored", "unscored", "scored"]
    assert (answers[1].reason or "").startswith(f"endpoint_error: HTTP {400 if 'context' in fault else 413}: ")
    assert (judge.request_count, len(journaled(tmp_path))) == (3, 2)
