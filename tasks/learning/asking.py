"""Questions to one model within one budget, whose answers are JSON objects or verdicts.

Replies are judgments of the ledger, so an equal question is paid for once. An object is filed under the criterion
`(proposal)`, and under its own key in place of an output, as it may be about many outputs.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast

from pydantic import BaseModel

from gradebook.rubrics.model.errors import InputError, JudgeSettingsError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.prompts.objects import (
    OBJECT_CRITERION_ID,
    Messages,
    object_key,
    object_schema,
    read_object,
    render_object_messages,
    repair_object_messages,
)
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices
from gradebook.tasks.judging.prices import find_price, most_tokens, prompt_bytes, refuse_unpriced, worst_cost_usd
from gradebook.tasks.judging.replies.judgment_row import outcome_from_rows
from gradebook.tasks.judging.replies.question import Askable, Outcome, Request
from gradebook.tasks.judging.session.session import JudgingSession, Money, open_session, probe_members
from gradebook.tasks.judging.settings.judge import Judge, JudgeSettings
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, lake_exists, prepare_lake
from gradebook.tasks.ledger.ledger import held_judgments, settle_journals
from gradebook.tasks.planning.estimates import Estimate, History, estimate_questions, read_history
from gradebook.tasks.planning.plan import sum_costs
from gradebook.tasks.system.files import try_lock
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import RUN_ID

Shape = TypeVar("Shape", bound=BaseModel)
Answered = TypeVar("Answered")
RUN_PREFIX = "learning-"  # prefix of the ledger's run ids for these replies, which belong to no run
USUAL_OBJECT_TOKENS, MOST_OBJECT_TOKENS = 800.0, 4096  # tokens of a reply


@dataclass(frozen=True, slots=True)
class ObjectAnswer(Generic[Shape]):
    """Outcome of a question for an object. value: None if no reply could be read; reason: why."""

    question: "ObjectQuestion[Shape]"
    value: Shape | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectQuestion(Generic[Shape]):
    """Question that asks for one JSON object, made by `Asking.object_question`."""

    name: str  # name of the object for the endpoint: letters and _
    shape: type[Shape]
    messages: Messages
    request_key: str
    replicate: int = 0
    max_tokens: int = MOST_OBJECT_TOKENS

    @property
    def output_id(self) -> str:
        """The request key, in place of an output's id in the ledger."""
        return self.request_key

    @property
    def criterion_id(self) -> str:
        """Fixed text in place of a criterion's id in the ledger."""
        return OBJECT_CRITERION_ID

    @property
    def prefix(self) -> str:
        """The request key: objects share only the instructions."""
        return self.request_key

    @property
    def prompt_digest(self) -> str:
        """Digest of the instructions."""
        return digest_of(self.messages[0]["content"])

    def request(self) -> Request:
        """Messages for a reply that is one object; an unreadable reply is asked for once more with its fault."""

        def read(text: str | None, ending: str | None, refusal: str | None, _choices: TokenChoices | None) -> ReadReply:
            return read_object(text, ending, refusal, self.shape)

        return Request(
            [*self.messages],
            object_schema(self.name, self.shape),
            read,
            self.max_tokens,
            repair=lambda text, useless: repair_object_messages(self.messages, text, useless),
        )

    def answer(self, outcome: Outcome) -> ObjectAnswer[Shape]:
        """Object of the reply, if it can be read."""
        if outcome.status != "scored":
            return ObjectAnswer(self, None, outcome.reason)
        return ObjectAnswer(self, self.shape.model_validate_json(outcome.rationale or "{}"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Questions to price before they are known: their number, and bytes of all their prompts.

    usual_tokens, max_tokens: of one reply; None: those of the judge's usual verdicts.
    """

    count: int
    prompt_bytes: int
    usual_tokens: float | None = USUAL_OBJECT_TOKENS
    max_tokens: int | None = MOST_OBJECT_TOKENS
    criterion_id: str = OBJECT_CRITERION_ID


@dataclass(frozen=True, slots=True)
class Forecast:
    """Price of questions in US dollars; None if unknown. worst_usd: each request at its highest possible cost."""

    question_count: int = 0
    stored_count: int = 0  # answered by the ledger
    cost_usd: float | None = 0.0
    cost_high_usd: float | None = 0.0
    worst_usd: float | None = 0.0

    def __add__(self, other: "Forecast") -> "Forecast":
        return Forecast(
            self.question_count + other.question_count,
            self.stored_count + other.stored_count,
            sum_costs((self.cost_usd, other.cost_usd)),
            sum_costs((self.cost_high_usd, other.cost_high_usd)),
            sum_costs((self.worst_usd, other.worst_usd)),
        )


@dataclass(slots=True)
class Tally:
    """Counts of questions asked. cost_usd: billed by this session; None if a price is unknown."""

    request_count: int = 0
    stored_count: int = 0
    cost_usd: float | None = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count the outcome of a question that was asked."""
        self.request_count += outcome.request_count
        if outcome.request_count and outcome.paid_by is None:
            self.cost_usd = sum_costs((self.cost_usd, outcome.cost_usd))


@dataclass
class Asking:
    """Questions to one model; the session opens with the first question that the ledger does not answer.

    planned_usd: high end of the price of all questions, for the message when the budget is reached.
    """

    settings: JudgeSettings
    lake: Lake
    run_id: str
    budget_usd: float | None = None
    planned_usd: float | None = None
    tally: Tally = field(default_factory=Tally)
    _stack: ExitStack = field(default_factory=ExitStack)
    _session: JudgingSession | None = None
    _answered: dict[str, Outcome] = field(
        default_factory=dict
    )  # outcomes of this session, whose journal is not settled yet

    def object_question(
        self,
        name: str,
        shape: type[Shape],
        instructions: str,
        material: Any,
        *,
        replicate: int = 0,
        max_tokens: int = MOST_OBJECT_TOKENS,
    ) -> ObjectQuestion[Shape]:
        """Question for one object. material: JSON values, marked in the prompt as data, not instructions."""
        messages = render_object_messages(instructions, material)
        key = object_key(self.settings.judge_digest, messages, object_schema(name, shape), replicate)
        return ObjectQuestion(name, shape, messages, key, replicate, max_tokens)

    def ask_object(self, question: ObjectQuestion[Shape], stage: str = "ask") -> ObjectAnswer[Shape]:
        """Answer to one question for an object. Raises as `ask`."""
        return self.ask([question], stage)[0]

    def ask(self, questions: Sequence[Askable[Answered]], stage: str = "ask") -> list[Answered]:
        """Answers in the order of the questions, of any kind: from the ledger, else from the model.

        Raises `BudgetReached` or `EndpointUnavailable`; the replies until then are stored.
        """
        outcomes = self._stored(questions)
        self.tally.stored_count += len(outcomes)
        open_questions = {
            question.request_key: question for question in questions if question.request_key not in outcomes
        }
        if open_questions:
            outcomes |= self._ask_open([*open_questions.values()], stage)
        return [question.answer(outcomes[question.request_key]) for question in questions]

    def price(self, questions: Sequence[Askable[Any]]) -> Forecast:
        """Price of questions; questions that the ledger answers are free."""
        stored_outcomes = self._stored(questions)
        unique = {
            question.request_key: question for question in questions if question.request_key not in stored_outcomes
        }
        forecast = Forecast(stored_count=len(stored_outcomes))
        for question in unique.values():
            request = question.request()
            size = prompt_bytes(request.messages, request.schema)
            usual = USUAL_OBJECT_TOKENS if question.criterion_id == OBJECT_CRITERION_ID else None
            wanted_question = Wanted(1, size, usual, request.max_tokens, question.criterion_id)
            forecast += self._price(wanted_question, most_tokens(request.messages, request.schema))
        return forecast

    def price_wanted(self, wanted: Wanted) -> Forecast:
        """Price of questions that depend on earlier replies."""
        return self._price(wanted, wanted.prompt_bytes) if wanted.count else Forecast()

    def close(self) -> None:
        """Close the session; its replies go to the ledger."""
        was_open, self._session = self._session is not None, None
        self._stack.close()
        if was_open:
            settle_journals(self.lake)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _has_lake(self) -> bool:
        """Whether the lake exists; the first question to the model makes it."""
        return lake_exists(self.lake)

    @cached_property
    def _history(self) -> History:
        if not self._has_lake:
            return History()
        with connect(self.lake, read_only=True) as connection:
            return read_history(connection, self.settings)

    def _price(self, wanted: Wanted, prompt_tokens: int) -> Forecast:
        """Price of open questions. prompt_tokens: upper bound, of all prompts."""
        estimate: Estimate = estimate_questions(
            self._history,
            self.settings,
            wanted.criterion_id,
            wanted.count,
            wanted.prompt_bytes,
            usual_tokens=wanted.usual_tokens,
        )
        price, tier = find_price(self.settings), self.settings.service_tier
        most = wanted.count * self.settings.token_limit(wanted.max_tokens)
        worst_usd = None if price is None else worst_cost_usd(price, prompt_tokens, most, tier)
        return Forecast(wanted.count, 0, estimate.cost_usd, estimate.cost_high_usd, worst_usd)

    def _stored(self, questions: Sequence[Askable[Any]]) -> dict[str, Outcome]:
        """Outcomes of this session and in the ledger, by key."""
        keys = {question.request_key for question in questions}
        outcomes = {key: self._answered[key] for key in keys & self._answered.keys()}
        rows = held_judgments(self.lake, [*keys - outcomes.keys()]) if self._has_lake else {}
        return outcomes | {key: outcome_from_rows(row) for key, row in rows.items()}

    def _ask_open(self, questions: Sequence[Askable[Any]], stage: str) -> dict[str, Outcome]:
        session = self._open_judging_session()
        outcomes: dict[str, Outcome] = {}

        def keep(answered: tuple[str, Outcome]) -> None:
            key, outcomes[key] = answered
            self.tally.add(answered[1])
            reporter().advance(stage, 1)

        session.lease_also(question.request_key for question in questions)
        reporter().begin(stage, len(questions))
        wrapped = [cast("Askable[tuple[str, Outcome]]", _WithOutcome(question)) for question in questions]
        session.ask(wrapped, keep)
        reporter().end(stage)
        self._answered |= {key: outcome for key, outcome in outcomes.items() if outcome.status == "scored"}
        return outcomes

    def _open_judging_session(self) -> JudgingSession:
        if self._session is None:
            price = find_price(self.settings)
            if self.budget_usd is not None:
                refuse_unpriced(self.settings, price)
            prepare_lake(self.lake)
            self._has_lake = True
            record = self._stack.enter_context(_locked_budget(self.lake, self.run_id))
            probe_members(self.settings, (0,))
            session = open_session(
                self.settings,
                journal_folder=self.lake.journal_folder,
                run_id=self.run_id,
                money=Money(self.budget_usd, record, self.planned_usd),
                price=price,
            )
            self._session = self._stack.enter_context(session)
            self._session.open_leases(partial(held_judgments, self.lake))
        return self._session


@dataclass(frozen=True, slots=True)
class _WithOutcome:
    """Wrapped question whose answer is (request key, outcome), the form of the ledger's answers."""

    question: Askable[Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.question, name)

    def answer(self, outcome: Outcome) -> tuple[str, Outcome]:
        return self.question.request_key, outcome


@contextmanager
def _locked_budget(lake: Lake, run_id: str) -> Iterator[Path]:
    """Record of a task's spending over all its commands, locked while the block runs.

    Raises `InputError` if another process works on the same task.
    """
    lake.journal_folder.mkdir(parents=True, exist_ok=True)
    record = lake.journal_folder / f"{run_id}.budget"
    lock = try_lock(record)
    if lock is None:
        raise InputError(f"{lake.name}: another process asks the same questions now ({run_id}); expected its end")
    try:
        yield record
    finally:
        os.close(lock)


@contextmanager
def open_asking(
    judge: Judge, lake: Lake, task: str, budget_usd: float | None = None, *, is_preview: bool = False
) -> Iterator[Asking]:
    """Questions to the member of a judge that writes texts; settled into the ledger at the end, also after a failure.

    task: name of the work, the same in each command that resumes it: its commands share the budget. is_preview: only
    price the questions; nothing is written to the lake. Raises `JudgeSettingsError` for recorded replies and decision
    models, which write no text.
    """
    settings = judge.writer.as_model
    if settings is None or settings.is_decision:
        refused = f"{judge.judge}, which writes no text"
        raise JudgeSettingsError("--judge", refused, "a model that writes, behind an endpoint")
    if settings.mode == "batch":  # a batch takes hours, and these questions depend on each other
        settings = settings.model_copy(update={"mode": "reply"})
    run_id = f"{RUN_PREFIX}{task}"
    if not RUN_ID.fullmatch(run_id):
        raise InputError("task", repr(task), "letters, digits, - and _, at most 71")
    if not is_preview and lake_exists(lake):
        settle_journals(lake)  # replies to a killed command are not asked for again
    with Asking(settings, lake, run_id, budget_usd) as asking:
        yield asking
