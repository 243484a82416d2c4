"""Questions that a program of the operator answers, a file at a time, in place of an endpoint."""

import asyncio
import json
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
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
from gradebook.tasks.judging.batches.program import run_program
from gradebook.tasks.judging.money.budget import Budget
from gradebook.tasks.judging.money.prices import Price, cost_usd, least_prompt_tokens, prompt_bytes
from gradebook.tasks.judging.replies.completion import Reply, drop_false_usage
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.judging.replies.judgment_row import judgment_row, outcome_of, read_parts, reply_columns
from gradebook.tasks.judging.replies.outcome_cache import OutcomeCache
from gradebook.tasks.judging.replies.question import Askable, Outcome, unread
from gradebook.tasks.judging.session.request_coalescing import unpaid
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import refuse_unpaired_keys
from gradebook.tasks.system.files import write_text

MOST_ROUNDS = 2  # a line that is missing or broken is asked for once more
REPLIES_SUFFIX = ".replies.jsonl"
TICKET_SUFFIX = ".ticket"  # reservation of a file, and the worst cost of its largest request, while the program runs

Answered = TypeVar("Answered")


class ProgramAsker:
    """Asks the program of a judge that has a `batch_command`.

    Files lie beside the journals, in a folder of the run. A command that was killed left there what the program had
    written: the next one reads it before it asks.
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
        self._known = OutcomeCache()  # of earlier calls: their files are still there
        self._turn = asyncio.Lock()  # one program at a time: it takes a whole device
        self._is_stopped = threading.Event()

    async def ask(self, questions: Iterable[Askable[Answered]], on_answer: Callable[[Answered], None]) -> None:
        """Ask all questions, in as few files as they fit, and pass on the answers.

        Raises `EndpointUnavailable` if the program fails, after the replies that it wrote are in the journal.
        """
        waiting = iter(questions)
        async with self._turn:
            while taken := list(islice(waiting, MOST_REQUESTS)):
                outcomes = await self._outcomes({each.request_key: each for each in taken})
                for question in taken:
                    on_answer(question.answer(outcomes[question.request_key]))

    def stop(self) -> None:
        """End the program."""
        self._is_stopped.set()

    def close(self) -> None:
        """Remove the files, whose replies are all in the journal, unless the asking was stopped."""
        self._known.close()
        if not self._is_stopped.is_set():
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _outcomes(self, wanted: dict[str, Askable[Any]]) -> dict[str, Outcome]:
        """Outcome of each question: of an equal one, from files of a killed command, else from the program."""
        outcomes = {key: unpaid(known) for key in wanted if (known := self._known.find(key)) is not None}
        wanted = {key: question for key, question in wanted.items() if key not in outcomes}
        failures: dict[str, str] = {}
        for path in sorted(self._folder.glob(f"*{REPLIES_SUFFIX}")):
            found = (await asyncio.to_thread(self._read, path, wanted, failures))[0]
            self._settle_killed(path, found)
            outcomes |= found
        for _ in range(MOST_ROUNDS):
            left = [question for key, question in wanted.items() if key not in outcomes]
            for file in await asyncio.to_thread(self._files, left):
                outcomes |= await self._answered(file, wanted, failures)
        for key, question in wanted.items():
            if key in outcomes:
                self._known.store(key, outcomes[key])
            else:
                reason = failures.get(key) or _unsent(question) or "its request is larger than a file may be"
                outcomes[key] = Outcome("unscored", reason=f"endpoint_error: {reason}")
        return outcomes

    def _settle_killed(self, replies: Path, found: dict[str, Outcome]) -> None:
        """Settle the reservation of a file whose command was killed: what has no reply may have been billed."""
        intent_id = replies.name.removesuffix(REPLIES_SUFFIX)
        ticket_file = self._folder / f"{intent_id}{TICKET_SUFFIX}"
        if ticket_file.exists():
            ticket, largest_usd = json.loads(ticket_file.read_text(encoding="ascii"))
            costs = [largest_usd if each.cost_usd is None else each.cost_usd for each in found.values()]
            silent_count = len(read_request_keys(self._folder, intent_id)) - len(found)
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
            found, lost_count = await asyncio.to_thread(self._read, replies, of_file, failures, spent_ms)
            costs = [outcome.cost_usd for outcome in found.values()]
            if None not in costs:
                paid_usd = sum(cost for cost in costs if cost is not None) + lost_count * file.largest_usd
        finally:
            self._budget.settle(ticket, paid_usd)
            ticket_file.unlink()
        for key in of_file.keys() - found.keys():
            failures.setdefault(key, "the program wrote no reply to it")
        if fault is not None:
            raise fault
        if self._is_stopped.is_set():
            raise UnfinishedError("the judging was stopped; the same command resumes")
        return found

    def _read(
        self, path: Path, wanted: dict[str, Askable[Any]], failures: dict[str, str], spent_ms: float = 0.0
    ) -> tuple[dict[str, Outcome], int]:
        """Journal the replies of a file that answer a question.

        Returns their outcomes, and the number of questions without a reply that may have cost something.
        """
        replies = index_replies([path], set(wanted), None, 0.0) if path.is_file() else Replies()
        failures.update(replies.failures)
        outcomes = {}
        for key, place in replies.places.items():
            reply = read_reply_at(*place)
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
