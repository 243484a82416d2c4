"""Anthropic's Message Batches, against a real server on loopback: half the price, paid once, whatever comes between."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.job import BatchJob
from gradebook.tasks.judging.batches.run import ask_in_batches
from gradebook.tasks.judging.batches.state import RECORD, has_open_batches
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.batch_jobs import ALL_KEYS, COUNT, PACE, journaled, make_job, spent_usd
from tests.support.loopback_anthropic import LoopbackAnthropic

KEY = "sk-ant-canary-0123456789"


@pytest.fixture
def claude(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackAnthropic]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with LoopbackAnthropic(key=KEY) as server:
        monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", f"ANTHROPIC_API_KEY@{server.base_url.split('/')[2]}")
        yield server


@pytest.fixture
def job(claude: LoopbackAnthropic, tmp_path: Path) -> BatchJob:
    settings = JudgeSettings(
        model="claude-sonnet-5",
        base_url=claude.base_url,
        form="anthropic",
        key="env:ANTHROPIC_API_KEY",
        mode="batch",
        temperature=None,
    )
    return replace(make_job(claude, tmp_path), settings=settings)


def billed_usd(claude: LoopbackAnthropic) -> float:
    """Half of a dollar a million tokens, and of 1.25 for those written to the cache."""
    factors = {"input": 1, "output": 1, "cache_read_input": 1, "cache_creation_input": 1.25}
    return sum(usage[f"{name}_tokens"] * factor for usage in claude.usages for name, factor in factors.items()) * 5e-7


def test_every_question_is_answered_at_half_the_price(job: BatchJob, claude: LoopbackAnthropic):
    (intent,) = ask_in_batches(job)
    rows = journaled(job)
    assert (sorted(rows["request_key"].to_pylist()), set(rows["status"].to_pylist())) == (sorted(ALL_KEYS), {"scored"})
    assert (intent.ending, claude.request_count) == ("completed", 0)
    assert claude.batches.answered == dict.fromkeys(ALL_KEYS, 1)
    assert sum(rows["cost_usd"].to_pylist()) == pytest.approx(billed_usd(claude)) == pytest.approx(spent_usd(job))
    assert {*rows["service_tier"].to_pylist()} == {"batch"}
    assert {*claude.batches.lines[0]["params"]} == {"model", "max_tokens", "messages", "system", "output_config"}
    # Results stay at the endpoint, which ends them by itself.
    assert (len(claude.batches.batches), [path.suffix for path in job.folder.iterdir()].count(".jsonl")) == (1, 1)


@pytest.mark.parametrize(
    ("word", "ending"), [("partial", "completed"), ("expired", "expired"), ("endless", "cancelled")]
)
def test_entries_that_failed_expired_or_were_canceled_cost_nothing_and_stay_open(
    job: BatchJob, claude: LoopbackAnthropic, word: str, ending: str
):
    claude.batches.script = (word,)
    (intent,) = ask_in_batches(replace(job, pace=replace(PACE, window_s=0.05)))
    assert (intent.ending, journaled(job).num_rows) == (ending, COUNT // 2)
    assert spent_usd(job) == pytest.approx(billed_usd(claude))


@pytest.mark.parametrize("place", range(4))  # create, retrieve, results, delete
@pytest.mark.parametrize("fault", ["529", "lost"])
def test_an_overload_and_a_lost_answer_are_asked_again_and_paid_once(
    job: BatchJob, claude: LoopbackAnthropic, place: int, fault: str
):
    claude.batches.faults = [""] * place + [fault]
    ask_in_batches(job)
    assert (journaled(job).num_rows, claude.batches.answered) == (COUNT, dict.fromkeys(ALL_KEYS, 1))


@pytest.mark.parametrize("line_count", [2, 3])  # the requests are named; the batch is begun
def test_a_killed_command_goes_on_with_its_batch(job: BatchJob, claude: LoopbackAnthropic, line_count: int):
    claude.batches.faults = ["", *["500"] * 1_000]
    with pytest.raises(EndpointUnavailable, match="the same command resumes"):
        ask_in_batches(replace(job, settings=job.settings.model_copy(update={"patience_s": 0.005})))
    claude.batches.faults.clear()
    lines = (job.folder / RECORD).read_text().splitlines(keepends=True)
    (job.folder / RECORD).write_text("".join(lines[:line_count]))
    ask_in_batches(job)
    assert claude.batches.answered == dict.fromkeys(ALL_KEYS, 1)
    assert sorted(journaled(job)["request_key"].to_pylist()) == sorted(ALL_KEYS)
    assert not has_open_batches(job.folder)


@pytest.mark.parametrize("fault", ["400", "401", "404"])
def test_a_refusal_is_named_without_the_key(job: BatchJob, claude: LoopbackAnthropic, fault: str):
    claude.batches.faults = [fault]
    with pytest.raises(EndpointUnavailable) as raised:
        ask_in_batches(job)
    assert KEY not in str(raised.value)
    assert f"HTTP {fault}" in str(raised.value)
