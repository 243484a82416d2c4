"""Questions that a program of the operator answers, a file at a time, in place of an endpoint.

The program reads a file of requests and writes a file of replies, as `vllm run-batch` does.
"""

import asyncio
import json
import math
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from gradebook.rubrics.model.errors import EndpointUnavailable, UnfinishedError
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.tasks.judging.batches.files import (
    MOST_REQUESTS,
    Limits,
    Replies,
    RequestFile,
    index_replies,
    read_reply_at,
    read_request_keys,
    write_request_files,
)
from gradebook.tasks.judging.budget import Budget
from gradebook.tasks.judging.prices import Price, cost_usd, least_prompt_tokens, prompt_bytes
from gradebook.tasks.judging.replies.completion import Reply, drop_false_usage
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.judging.replies.judgment_row import judgment_row, outcome_of, read_parts, reply_columns
from gradebook.tasks.judging.replies.question import Askable, Outcome, unread
from gradebook.tasks.judging.session.request_coalescing import OutcomeCache, unpaid
from gradebook.tasks.judging.settings.judge import JudgeSettings, program_arguments
from gradebook.tasks.judging.settings.keys import refuse_unpaired_keys
from gradebook.tasks.system.files import write_text
from gradebook.tasks.system.processes import command_ended_with_parent, end_process

MOST_ROUNDS = 2  # a line that is missing or broken is asked for once more
REPLIES_SUFFIX = ".replies.jsonl"
TICKET_SUFFIX = ".ticket"  # reservation of a file, and the worst cost of its largest request, while the program runs

Answered = TypeVar("Answered")


class ProgramAsker:
    """Asks the program of a judge that has a `batch_command`.

    Files are next to the journals, in a folder of the run. After a killed command, the next one first reads what the
    program had written.
    """

    def __init__(
        self, settings: JudgeSettings, price: Price | None, budget: Budget, journal: Journal, run_id: str
    ) -> None:
        self._settings, self._price, self._budget, self._journal, self._run_id = (
            settings,
            price,
            budget,
            journal,
            run_id,
        )
        self._folder = journal.path.parent / "programs" / run_id / settings.judge_digest
        self._cache = OutcomeCache()  # of earlier calls: their files are still there
        self._turn = asyncio.Lock()  # one program at a time: it takes a whole device
        self._is_stopped = threading.Event()

    async def ask(self, questions: Iterable[Askable[Answered]], on_answer: Callable[[Answered], None]) -> None:
        """Ask all questions, in as few files as they fit, and pass on the answers.

        Raises `EndpointUnavailable` if the program fails, after the replies that it wrote are in the journal.
        """
        waiting = iter(questions)
        async with self._turn:
            while batch := list(islice(waiting, MOST_REQUESTS)):
                outcomes = await self._outcomes({question.request_key: question for question in batch})
                for question in batch:
                    on_answer(question.answer(outcomes[question.request_key]))

    def stop(self) -> None:
        """End the program."""
        self._is_stopped.set()

    def close(self) -> None:
        """Remove the files, whose replies are all in the journal, unless the asking was stopped."""
        self._cache.close()
        if not self._is_stopped.is_set():
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _outcomes(self, questions: dict[str, Askable[Any]]) -> dict[str, Outcome]:
        """Outcome of each question: of an equal one, from files of a killed command, else from the program."""
        outcomes = {key: unpaid(outcome) for key in questions if (outcome := self._cache.find(key)) is not None}
        questions = {key: question for key, question in questions.items() if key not in outcomes}
        failures: dict[str, str] = {}
        for path in sorted(self._folder.glob(f"*{REPLIES_SUFFIX}")):
            earlier = (await asyncio.to_thread(self._read, path, questions, failures))[0]
            self._settle_killed(path, earlier)
            outcomes |= earlier
        for _ in range(MOST_ROUNDS):
            remaining = [question for key, question in questions.items() if key not in outcomes]
            for file in await asyncio.to_thread(self._files, remaining):
                outcomes |= await self._answered(file, questions, failures)
        for key, question in questions.items():
            if key in outcomes:
                self._cache.store(key, outcomes[key])
            else:
                reason = failures.get(key) or _unsent(question) or "its request is larger than a file may be"
                outcomes[key] = Outcome("unscored", reason=f"endpoint_error: {reason}")
        return outcomes

    def _settle_killed(self, replies: Path, outcomes: dict[str, Outcome]) -> None:
        """Settle the reservation of a file whose command was killed: what has no reply may have been billed."""
        intent_id = replies.name.removesuffix(REPLIES_SUFFIX)
        ticket_file = self._folder / f"{intent_id}{TICKET_SUFFIX}"
        if ticket_file.exists():
            ticket, largest_usd = json.loads(ticket_file.read_text(encoding="ascii"))
            costs = [largest_usd if outcome.cost_usd is None else outcome.cost_usd for outcome in outcomes.values()]
            silent_count = len(read_request_keys(self._folder, intent_id)) - len(outcomes)
            self._budget.settle_earlier(ticket, math.fsum(costs) + silent_count * largest_usd)
            ticket_file.unlink()

    def _files(self, questions: Sequence[Askable[Any]]) -> list[RequestFile]:
        self._folder.mkdir(parents=True, exist_ok=True)
        numbered = ((0, question) for question in questions)
        return list(write_request_files(self._folder, numbered, self._settings, self._price, float("inf"), Limits()))

    async def _answered(
        self, file: RequestFile, wanted: dict[str, Askable[Any]], failures: dict[str, str]
    ) -> dict[str, Outcome]:
        """Run the program on a file; its replies are journaled even if it fails."""
        refuse_unpaired_keys(self._settings, os.environ)
        ticket = await self._budget.reserve(file.worst_usd)
        ticket_file = self._folder / f"{file.intent_id}{TICKET_SUFFIX}"
        write_text(ticket_file, json.dumps((ticket, file.largest_usd)))
        paid_usd: float | None = None
        replies = self._folder / f"{file.intent_id}{REPLIES_SUFFIX}"
        of_file = {key: wanted[key] for key in read_request_keys(self._folder, file.intent_id)}
        command = self._settings.batch_command or ""
        began = time.perf_counter()
        fault: EndpointUnavailable | None = None
        try:
            try:
                await asyncio.to_thread(run_program, command, file.path, replies, len(of_file), self._is_stopped)
            except EndpointUnavailable as error:
                fault = error
            spent_ms = (time.perf_counter() - began) * 1000
            outcomes, lost_count = await asyncio.to_thread(self._read, replies, of_file, failures, spent_ms)
            costs = [outcome.cost_usd for outcome in outcomes.values()]
            if None not in costs:
                paid_usd = sum(cost for cost in costs if cost is not None) + lost_count * file.largest_usd
        finally:
            self._budget.settle(ticket, paid_usd)
            ticket_file.unlink()
        for key in of_file.keys() - outcomes.keys():
            failures.setdefault(key, "the program wrote no reply to it")
        if fault is not None:
            raise fault
        if self._is_stopped.is_set():
            raise UnfinishedError("the judging was stopped; the same command resumes")
        return outcomes

    def _read(
        self, path: Path, wanted: dict[str, Askable[Any]], failures: dict[str, str], spent_ms: float = 0.0
    ) -> tuple[dict[str, Outcome], int]:
        """Journal the replies of a file that answer a question.

        Returns their outcomes, and the number of questions without a reply that may have cost something.
        """
        replies = index_replies([path], set(wanted), None, 0.0) if path.is_file() else Replies()
        failures.update(replies.failures)
        outcomes = {}
        for key, file_and_offset in replies.places.items():
            reply = read_reply_at(*file_and_offset)
            if reply is not None:
                outcomes[key] = self._journaled(wanted[key], replace(reply, service_tier=None, latency_ms=spent_ms))
        return outcomes, replies.lost_count(len(wanted))

    def _journaled(self, question: Askable[Any], reply: Reply) -> Outcome:
        request = unread(question).request()
        read = read_parts(request, reply, is_plain=self._settings.is_plain)[0]
        reply = drop_false_usage(reply, least_prompt_tokens(request.messages))
        paid_usd = None if reply.usage is None else cost_usd(self._price, reply.usage)
        sent_bytes = prompt_bytes(request.messages, request.schema)
        judgment = (
            judgment_row(self._run_id, question, self._settings.judge, read)
            | reply_columns(reply, paid_usd, sent_bytes, 1, datetime.now(UTC))
            | (request.note(reply) if request.note else {})
        )
        self._journal.append(judgment)
        return outcome_of(read, judgment_id=judgment["judgment_id"], cost_usd=paid_usd, request_count=1)


def _unsent(question: Askable[Any]) -> str | None:
    """Reason why a question is in no file; None if it was sent."""
    try:
        question.request()
    except UnreadableMedia as fault:
        return str(fault)
    return None


POLL_S = 0.2
REPLY_BYTES = 2**20  # that a program may write for each request, on average
LEAST_BYTES = 2**24
LOG_BYTES = 2**26


def run_program(command: str, requests: Path, replies: Path, request_count: int, is_stopped: threading.Event) -> None:
    """Run a `batch_command` on a file of requests until it ends; its output goes to a log next to the replies.

    Raises `EndpointUnavailable` if it can't be started, ends with another exit code than 0, or writes more than
    `request_count` replies may take; what it wrote until then stays. Ends it, without an error, once is_stopped is set.
    """
    arguments = program_arguments(command, str(requests), str(replies))
    log = replies.with_suffix(".log")
    if shutil.which(arguments[0]) is None:
        raise EndpointUnavailable(f"batch_command: found no program {arguments[0]}")
    most_bytes = LEAST_BYTES + request_count * REPLY_BYTES
    with log.open("wb") as output:
        process = subprocess.Popen(
            command_ended_with_parent(arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C ends this process, which ends the program
        )
        try:
            while process.poll() is None and not is_stopped.is_set():
                time.sleep(POLL_S)
                _refuse_too_much(replies, most_bytes)
                _refuse_too_much(log, LOG_BYTES)
        finally:
            end_process(process)
    if process.returncode and not is_stopped.is_set():
        raise EndpointUnavailable(
            f"batch_command: {arguments[0]} ended with {_ending(process.returncode)}, its output is in {log}; the "
            "replies that it wrote are stored, and the same command resumes"
        )
    _refuse_too_much(replies, most_bytes)


def _refuse_too_much(path: Path, most_bytes: int) -> None:
    with suppress(FileNotFoundError):
        size = path.stat().st_size
        if size > most_bytes:
            raise EndpointUnavailable(f"batch_command: found {size:,} bytes in {path}, expected at most {most_bytes:,}")


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"a signal: {signal.strsignal(-code)}"
