"""Recorded replies: a judge that reads its replies from a file."""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gradebook.rubrics.model.errors import Fault, FaultList, JudgeSettingsError, show_faults
from gradebook.rubrics.model.levels import Level, place_score
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.reply_parser import ReadReply, ReplyStatus, Requirement, UselessStatus, is_quoted
from gradebook.rubrics.text.plain_words import fault_lines
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.judging.replies.judgment_row import TOKEN_COLUMNS, judgment_row, outcome_of
from gradebook.tasks.judging.replies.question import Answer, Outcome, Question
from gradebook.tasks.judging.settings.judge import ReplaySettings

_Key = tuple[str, str, str | None, int, str, int, str | None]  # see RecordedReply.key
_NumberedReply = tuple[int, "RecordedReply"]  # with its line number
_MOST_LINE_BYTES = 2**27
NO_REPLY: Final = "endpoint_error"  # no reply after all attempts, so there is no judgment
MOST_ROUNDING = 1e-4  # by which the probabilities of a reply may miss 1
RecordedStatus = Literal[UselessStatus, "endpoint_error"]
Probability = Annotated[float, Field(ge=0, le=1)]


class RecordedReply(BaseModel):
    """One line of a file of recorded replies: a level, or the reason for none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    case_id: str
    model: str
    criterion_id: str
    checkpoint: str | None = None
    sample_index: Annotated[int, Field(ge=0)] = 0
    output_id: str | None = None
    replicate: Annotated[int, Field(ge=0)] = 0
    level: str | None = None
    score: Annotated[float, Field(ge=0, le=1)] | None = None  # of a judge that gives numbers, instead of a level
    distribution: dict[str, Probability] | None = None  # level id -> probability
    status: RecordedStatus | None = None
    reply: str | None = None  # raw text of an unusable reply; for endpoint_error, the error
    evidence: list[str] | list[Requirement] = []
    rationale: str | None = ""

    @property
    def key(self) -> _Key:
        """Key by which the reply is found."""
        return (
            self.case_id,
            self.model,
            self.checkpoint,
            self.sample_index,
            self.criterion_id,
            self.replicate,
            self.output_id,
        )

    @field_validator("distribution")
    @classmethod
    def _adding_up_to_one(cls, shares: dict[str, float] | None) -> dict[str, float] | None:
        """Probabilities written with four decimals may miss 1 by their rounding, and are divided by their sum."""
        if shares is None:
            return None
        total = math.fsum(shares.values())
        if not math.isclose(total, 1, abs_tol=MOST_ROUNDING):
            raise ValueError(f"found a distribution that adds up to {total:.6g}, expected 1")
        return {level: share / total for level, share in shares.items()}

    @model_validator(mode="after")
    def _has_a_level_or_says_why_not(self) -> Self:
        outcome_names = [name for name in ("level", "score", "status") if getattr(self, name) is not None]
        if len(outcome_names) != 1:
            raise ValueError(f"found {' and '.join(outcome_names) or 'none'}, expected one of level, score and status")
        if self.distribution is not None and self.level is None:
            raise ValueError("found a distribution without a level, expected both or neither")
        if self.reply is not None and self.status is None:
            raise ValueError("found a reply beside a level, expected it beside a status alone")
        return self

    def on(self, levels: Sequence[Level]) -> "RecordedReply":
        """The reply with a level, and where it has a score, with the distribution that has this mean."""
        if self.score is None:
            return self
        level_id, shares = place_score(levels, self.score)
        return self.model_copy(update={"level": level_id, "distribution": shares, "score": None})

    def level_ids(self) -> tuple[str, ...]:
        """All levels that the reply names."""
        return (*([self.level] if self.level is not None else []), *(self.distribution or {}))


def read_recorded(reply: RecordedReply, output: str) -> ReadReply:
    """Read a recorded reply like a judge's; its quotes have to occur in the output too.

    Raises `ValueError` for `endpoint_error`, which is no reply.
    """
    requirements = tuple(entry for entry in reply.evidence if isinstance(entry, Requirement))
    texts = [entry.quote if isinstance(entry, Requirement) else entry for entry in reply.evidence]
    quotes = tuple(text for text in texts if text.strip())
    if reply.status == NO_REPLY:
        raise ValueError(f"{NO_REPLY}: expected a reply")
    if reply.status is not None:
        return ReadReply(reply.status, None, quotes, reply.rationale, requirements=requirements)
    status: ReplyStatus = "scored" if is_quoted(quotes, output) else "evidence_unverified"
    return ReadReply(status, reply.level, quotes, reply.rationale, reply.distribution, requirements=requirements)


def read_replies(path: Path) -> dict[_Key, _NumberedReply]:
    """Read a file of recorded replies, each with its line number.

    Raises `JudgeSettingsError` with every line that is no reply or a duplicate.
    """
    replies: dict[_Key, _NumberedReply] = {}
    faults = FaultList(_faulty)
    for number, line in enumerate(_read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            reply = RecordedReply.model_validate(orjson.loads(line))
        except (orjson.JSONDecodeError, ValidationError) as error:
            faults.add(Fault(str(path), number, message) for message in _messages(error))
            continue
        first, _ = replies.setdefault(reply.key, (number, reply))
        if first != number:
            faults.add([Fault(str(path), number, f"found the reply of line {first} again, expected each once")])
    faults.raise_any()
    return replies


def check_recording(path: Path) -> None:
    """Raise `JudgeSettingsError` at the first line that is no recorded reply; an empty file has none."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_MOST_LINE_BYTES):
                number += 1
                if line.strip():
                    RecordedReply.model_validate(orjson.loads(line))
    except OSError as error:
        raise JudgeSettingsError(f"{path}: can't be read ({error.strerror}), expected recorded replies") from None
    except (orjson.JSONDecodeError, ValidationError) as error:
        raise JudgeSettingsError(str(Fault(str(path), number, _messages(error)[0]))) from None


def check_replies(path: Path, criteria: Iterable[Criterion]) -> None:
    """Check recorded replies against a rubric's criteria.

    Raises `JudgeSettingsError` with every level that its criterion does not have. Replies to criteria of other rubrics
    are ignored.
    """
    levels = {criterion.id: criterion.ranked_levels for criterion in criteria}
    faults = FaultList(_faulty)
    faults.add(
        Fault(str(path), number, misfit)
        for number, reply in read_replies(path).values()
        if reply.criterion_id in levels
        if (misfit := _misfit(reply, levels[reply.criterion_id])) is not None
    )
    faults.raise_any()


class ReplaySession:
    """Session that answers from recorded replies, with the interface of a judging session and at no cost."""

    def __init__(self, settings: ReplaySettings, journal_folder: Path, run_id: str) -> None:
        self.settings = settings
        self.cpu_s = 0.0
        self._run_id = run_id
        self._replies = read_replies(settings.path)
        self.journal = Journal(journal_folder, run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()

    def ask(self, questions: Iterable[Question], on_answer: Callable[[Answer], None]) -> None:
        """Answer all questions in order, in the caller's thread."""
        for question in questions:
            on_answer(self._answer(question))

    def _answer(self, question: Question) -> Answer:
        numbered_reply = self._find_reply(question)
        if numbered_reply is None:
            return question.answer(Outcome("unscored", reason="not_recorded"))
        number, reply = numbered_reply
        misfit = _misfit(reply, question.criterion.ranked_levels)
        if misfit is not None:
            raise JudgeSettingsError(str(Fault(str(self.settings.path), number, misfit)))
        reply = reply.on(question.criterion.ranked_levels)
        if reply.status == NO_REPLY:
            return question.answer(Outcome("unscored", reason=f"{NO_REPLY}: {reply.reply or ''}", cost_usd=0.0))
        read = read_recorded(reply, question.case.quotable)
        judgment = judgment_row(self._run_id, question, self.settings.judge, read) | _free_of_charge(reply)
        self.journal.append(judgment)
        return question.answer(outcome_of(read, judgment_id=judgment["judgment_id"], cost_usd=0.0))

    def _find_reply(self, question: Question) -> _NumberedReply | None:
        """Reply to a question; replies recorded for another text of the same output do not match."""
        slot = (question.case_id, question.model, question.checkpoint, question.sample_index, question.criterion.id)
        ids = (question.output_id, None)
        candidates = (self._replies.get((*slot, question.replicate, output_id)) for output_id in ids)
        return next((reply for reply in candidates if reply is not None), None)


def _free_of_charge(reply: RecordedReply) -> dict[str, Any]:
    return {
        "reply": reply.model_dump_json(),
        "model_returned": None,
        "system_fingerprint": None,
        "service_tier": None,
        "prompt_bytes": None,
        **dict.fromkeys(TOKEN_COLUMNS, 0),
        "cost_usd": 0.0,
        "latency_ms": 0.0,
        "attempts": 0,  # no request was sent
        "asked_at": datetime.now(UTC),
    }


def _misfit(reply: RecordedReply, levels: Sequence[Level]) -> str | None:
    """Message about a level or score that the criterion does not have; None if all are its own."""
    level_ids = [level.id for level in levels]
    try:
        reply.on(levels)
    except ValueError as error:
        return f"score: {error}, the scores of the levels of {reply.criterion_id}"
    unknown = next((level_id for level_id in reply.level_ids() if level_id not in level_ids), None)
    if unknown is None:
        return None
    return f"level: found {unknown!r}, expected a level of {reply.criterion_id}: {', '.join(level_ids)}"


def _read_lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError as error:
        raise JudgeSettingsError(f"{path}: can't be read ({error.strerror}), expected recorded replies") from None


def _messages(error: orjson.JSONDecodeError | ValidationError) -> list[str]:
    if isinstance(error, orjson.JSONDecodeError):
        return [f"found no JSON, expected a recorded reply: {error.msg}, at character {error.pos + 1}"]
    return fault_lines(error, "line")


def _faulty(faults: tuple[Fault, ...]) -> JudgeSettingsError:
    return JudgeSettingsError(show_faults(faults))
