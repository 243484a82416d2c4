"""Batches of a process that was killed: gone on with at any step, and paid once."""

import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable, LakeError
from gradebook.tasks.judging.batches.files import Limits
from gradebook.tasks.judging.batches.job import BatchJob
from gradebook.tasks.judging.batches.run import ask_in_batches
from gradebook.tasks.judging.batches.state import RECORD, BatchRecord, has_open_batches
from tests.support.batch_jobs import ALL_KEYS, COUNT, billed_usd, journaled, make_job, spent_usd
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly

CALLS = ("upload", "begin", "look", "download", "delete the requests", "delete the replies")


@pytest.fixture
def job(judge: LoopbackJudge, tmp_path: Path) -> BatchJob:
    return make_job(judge, tmp_path)


def run_until_killed(job: BatchJob, judge: LoopbackJudge, call: int, moment: str) -> None:
    """Run the job in a process that is killed at a call to the endpoint, before or after it is handled."""
    process = multiprocessing.get_context("fork").Process(target=ask_in_batches, args=(job,))

    is_started = threading.Event()

    def kill(number: int, at: str) -> bool:
        if (number, at) != (call, moment):
            return False
        is_started.wait(20)
        os.kill(process.pid, signal.SIGKILL)
        return True

    judge.batches.on_call = kill
    process.start()
    is_started.set()
    process.join(20)
    judge.batches.on_call = lambda _number, _moment: False
    assert process.exitcode == -signal.SIGKILL


def cut_record(job: BatchJob, line_count: int, tail: str = "") -> None:
    """Leave that many lines of the record, and perhaps half a line."""
    lines = (job.folder / RECORD).read_text().splitlines(keepends=True)
    (job.folder / RECORD).write_text("".join(lines[:line_count]) + tail)


@pytest.mark.parametrize("moment", ["before", *nightly(["after"])])
@pytest.mark.parametrize("call", range(1, len(CALLS) + 1), ids=CALLS)
def test_killed_at_any_call_everything_is_asked_and_paid_once(
    job: BatchJob, judge: LoopbackJudge, call: int, moment: str
):
    run_until_killed(job, judge, call, moment)
    ask_in_batches(job)
    assert (len(judge.batches.batches), judge.batches.answered) == (1, dict.fromkeys(ALL_KEYS, 1))
    assert sorted(journaled(job)["request_key"].to_pylist()) == sorted(ALL_KEYS)
    assert spent_usd(job) == pytest.approx(billed_usd(judge))
    assert not has_open_batches(job.folder)


def test_killed_between_two_files_the_second_is_still_sent(job: BatchJob, judge: LoopbackJudge):
    job = replace(job, limits=Limits(COUNT // 2))
    run_until_killed(job, judge, 3, "before")  # the second upload
    ask_in_batches(job)
    assert (len(judge.batches.batches), judge.batches.answered) == (2, dict.fromkeys(ALL_KEYS, 1))
    assert spent_usd(job) == pytest.approx(billed_usd(judge))


def test_a_batch_is_found_on_a_later_page(job: BatchJob, judge: LoopbackJudge):
    run_until_killed(job, judge, 2, "after")
    (ours,) = judge.batches.batches.values()
    for number in range(5):
        judge.batches.batches[f"other-{number}"] = ours | {
            "id": f"other-{number}",
            "metadata": None,
            "status": "completed",
        }
    judge.batches.page_size = 2
    ask_in_batches(job)
    assert judge.batches.answered == dict.fromkeys(ALL_KEYS, 1)


def test_an_uploaded_file_that_is_gone_is_written_anew(job: BatchJob, judge: LoopbackJudge):
    run_until_killed(job, judge, 2, "before")
    judge.batches.files.clear()
    assert [intent.ending for intent in ask_in_batches(job)] == ["not_sent", "completed"]
    assert spent_usd(job) == pytest.approx(billed_usd(judge))


def test_killed_while_it_noted_the_end_adds_and_counts_nothing_twice(job: BatchJob, judge: LoopbackJudge):
    judge.batches.faults = ["DELETE 500"]  # the files stay where they are
    ask_in_batches(job)
    cut_record(job, 3, '{"intent_id":"')
    ask_in_batches(job)
    assert journaled(job).num_rows == COUNT
    assert spent_usd(job) == pytest.approx(billed_usd(judge))


def test_replies_that_the_endpoint_has_deleted_count_at_their_worst(job: BatchJob, judge: LoopbackJudge):
    ask_in_batches(job)
    cut_record(job, 3)
    (intent,) = ask_in_batches(job)
    assert intent.ending == "lost"


def test_a_file_that_could_not_be_deleted_is_deleted_by_the_next_command(job: BatchJob, judge: LoopbackJudge):
    judge.batches.faults = ["DELETE 500"]
    ask_in_batches(job)
    assert has_open_batches(job.folder)
    ask_in_batches(job)
    assert (judge.batches.files, has_open_batches(job.folder)) == ({}, False)


def test_a_run_that_asks_online_now_takes_in_what_its_batch_has_done(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("endless",)
    run_until_killed(job, judge, 3, "after")
    (intent,) = ask_in_batches(replace(job, is_submitting=False))
    assert (intent.ending, journaled(job).num_rows, len(judge.batches.batches)) == ("cancelled", COUNT // 2, 1)


def test_what_one_batch_has_held_no_other_asks(job: BatchJob, judge: LoopbackJudge):
    judge.batches.script = ("partial",)
    ask_in_batches(job)
    ask_in_batches(job)
    assert len(judge.batches.batches) == 1


def test_a_batch_at_another_address_is_not_forgotten(job: BatchJob, judge: LoopbackJudge):
    run_until_killed(job, judge, 3, "before")
    elsewhere = job.settings.model_copy(update={"base_url": "http://127.0.0.1:9/v1"})
    with pytest.raises(EndpointUnavailable, match=judge.base_url):
        ask_in_batches(replace(job, settings=elsewhere))


def test_what_a_killed_process_set_aside_holds_the_budget(job: BatchJob, judge: LoopbackJudge):
    job = replace(job, limits=Limits(COUNT // 2))
    run_until_killed(job, judge, 3, "before")
    with BatchRecord(job.folder) as record:
        (first, second) = record.intents
    ask_in_batches(replace(job, budget_usd=first.worst_usd + second.worst_usd * 0.5))
    assert 0.6 * COUNT < len(judge.batches.lines) <= 0.75 * COUNT


@pytest.mark.parametrize("line", ["{}", "no JSON", '{"intent_id":"x"}', f'{{"intent_id":"{"0" * 32}"}}'])
def test_a_broken_record_is_named_with_its_line(job: BatchJob, line: str):
    job.folder.mkdir()
    (job.folder / RECORD).write_text(line + "\n")
    with pytest.raises(LakeError, match=r"record\.jsonl:1"):
        ask_in_batches(job)


def test_a_record_without_a_price_is_read_again(job: BatchJob, judge: LoopbackJudge):
    unpriced = replace(job, price=None)
    run_until_killed(unpriced, judge, CALLS.index("look"), "before")
    assert has_open_batches(job.folder)
    ask_in_batches(unpriced)
    assert sorted(journaled(job)["request_key"].to_pylist()) == sorted(ALL_KEYS)
