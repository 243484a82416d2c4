"""Recorded replies: a judge that reads its answers from a file."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rubrics.errors import MOST_FAULTS_SHOWN, Fault, JudgeSettingsError
from rubrics.judging.replies import ReadReply, is_quoted
from rubrics.model import Criterion
from tasks.judging.client import judgment_row, outcome_of
from tasks.judging.journal import Journal
from tasks.judging.questions import Answer, Outcome, Question
from tasks.judging.settings import ReplaySettings

_Key = tuple[str, str, str | None, int, str]  # case_id, model, checkpoint, sample_index, criterion_id


class RecordedReply(BaseModel):
    """One line of a file of recorded replies."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    case_id: str
    model: str
    criterion_id: str
    checkpoint: str | None = None
    sample_index: Annotated[int, Field(ge=0)] = 0
    output_id: str | None = None
    level: str
    evidence: list[str] = []
    rationale: str = ""

    @property
    def key(self) -> _Key:
        """What the reply is found by."""
        return (self.case_id, self.model, self.checkpoint, self.sample_index, self.criterion_id)


def read_replies(path: Path) -> dict[_Key, tuple[int, RecordedReply]]:
    """Read a file of recorded replies, each with its line.

    Raises `JudgeSettingsError` with every line that is no reply or was there before.
    """
    replies: dict[_Key, tuple[int, RecordedReply]] = {}
    faults: list[Fault] = []
    for number, line in enumerate(_read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            reply = RecordedReply.model_validate(orjson.loads(line))
        except (orjson.JSONDecodeError, ValidationError) as error:
            faults.extend(Fault(str(path), number, message) for message in _messages(error))
            continue
        first, _ = replies.setdefault(reply.key, (number, reply))
        if first != number:
            faults.append(Fault(str(path), number, f"found the reply of line {first} again, expected each once"))
    _raise_any(faults)
    return replies


def check_replies(path: Path, criteria: Iterable[Criterion]) -> None:
    """Check recorded replies against a rubric's criteria.

    Raises `JudgeSettingsError` with every level that its criterion does not have. Replies to criteria of other
    rubrics are left alone.
    """
    level_ids = {criterion.id: [level.id for level in criterion.ranked_levels] for criterion in criteria}
    faults = [
        Fault(str(path), number, _misfit(reply, level_ids[reply.criterion_id]))
        for number, reply in read_replies(path).values()
        if reply.criterion_id in level_ids and reply.level not in level_ids[reply.criterion_id]
    ]
    _raise_any(faults)


class ReplaySession:
    """Answers from recorded replies, with the interface of a judging session and at no cost."""

    def __init__(self, settings: ReplaySettings, journal_folder: Path, run_id: str) -> None:
        self.settings = settings
        self.cpu_s = 0.0
        self._run_id = run_id
        self._replies = read_replies(settings.path)
        self.journal = Journal(journal_folder, run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.journal.close()

    def ask(self, questions: Iterable[Question], on_answer: Callable[[Answer], None]) -> None:
        """Answer all questions in their order, in the caller's thread."""
        for question in questions:
            on_answer(self._answer(question))

    def _answer(self, question: Question) -> Answer:
        found = self._find(question)
        if found is None:
            return question.answer(Outcome("unscored", reason="not_recorded"))
        read = self._read(question, *found)
        judgment = judgment_row(self._run_id, question, self.settings.judge, read) | _free_of_charge(found[1])
        self.journal.append(judgment)
        return question.answer(outcome_of(read, judgment_id=judgment["judgment_id"], cost_usd=0.0))

    def _find(self, question: Question) -> tuple[int, RecordedReply] | None:
        """The reply to a question; one recorded for another text of the same output is none."""
        place = (question.case_id, question.model, question.checkpoint, question.sample_index, question.criterion.id)
        found = self._replies.get(place)
        if found is None or found[1].output_id not in (None, question.output_id):
            return None
        return found

    def _read(self, question: Question, number: int, reply: RecordedReply) -> ReadReply:
        level_ids = [level.id for level in question.criterion.ranked_levels]
        if reply.level not in level_ids:
            raise JudgeSettingsError(str(Fault(str(self.settings.path), number, _misfit(reply, level_ids))))
        quotes = tuple(quote for quote in reply.evidence if quote.strip())
        is_true = is_quoted(quotes, question.case.output)
        return ReadReply("scored" if is_true else "evidence_unverified", reply.level, quotes, reply.rationale)


def _free_of_charge(reply: RecordedReply) -> dict[str, Any]:
    return {
        "reply": reply.model_dump_json(),
        "model_returned": None,
        "prompt_tokens": 0,
        "cached_tokens": 0,
        "completion_tokens": 0,
        "cost_usd": 0.0,
        "latency_ms": 0.0,
        "attempts": 0,  # nothing was asked
        "asked_at": datetime.now(UTC),
    }


def _misfit(reply: RecordedReply, level_ids: list[str]) -> str:
    return f"level: found {reply.level!r}, expected a level of {reply.criterion_id}: {', '.join(level_ids)}"


def _read_lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError as error:
        raise JudgeSettingsError(f"{path}: can't be read ({error.strerror}), expected recorded replies") from None


def _messages(error: Exception) -> list[str]:
    if not isinstance(error, ValidationError):
        return [f"found no JSON, expected a recorded reply: {error}"]
    return [f"{'.'.join(map(str, fault['loc'])) or 'line'}: {fault['msg']}" for fault in error.errors()]


def _raise_any(faults: list[Fault]) -> None:
    if faults:
        hidden_count = max(0, len(faults) - MOST_FAULTS_SHOWN)
        shown = [str(fault) for fault in faults[:MOST_FAULTS_SHOWN]]
        raise JudgeSettingsError("\n".join([*shown, f"... and {hidden_count} more"] if hidden_count else shown))
