"""Columns of a judgment, and the outcome for the caller."""

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from gradebook.rubrics.prompts.decisions import own_answers
from gradebook.rubrics.prompts.reply_parser import MOST_REPLY_LENGTH, ReadReply, clean_text, only_object, unreadable
from gradebook.tasks.judging.replies.completion import Reply
from gradebook.tasks.judging.replies.question import Askable, Outcome, Request

ALL_THOUGHT = "found reasoning alone, without a text: turn it off for this model, or the server's reasoning parser"
TOKEN_COLUMNS = ("prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens", "reasoning_tokens")
SPLIT_COLUMNS = ("prompt_bytes", *TOKEN_COLUMNS)


def judgment_row(run_id: str, question: Askable[Any], judge: str, read: ReadReply) -> dict[str, Any]:
    """Columns of JUDGMENT_SCHEMA from the reading of a reply; `reply_columns` has those of the request."""
    return {
        "judgment_id": uuid.uuid4().hex,
        "run_id": run_id,
        "request_key": question.request_key,
        "output_id": question.output_id,
        "criterion_id": question.criterion_id,
        "judge": judge,
        "replicate": question.replicate,
        "status": read.status,
        "level_id": read.level_id if read.status == "scored" else None,
        "distribution": distribution_text(read),
        "rationale": read.rationale,
        "evidence": evidence_text(read),
        "prompt_digest": question.prompt_digest,
    }


def reply_columns(
    reply: Reply, cost_usd: float | None, prompt_bytes: int, attempts: int, asked_at: datetime
) -> dict[str, Any]:
    """Columns of JUDGMENT_SCHEMA from an HTTP 200. prompt_bytes: of the messages and the schema as sent."""
    return {
        "reply": clean_text(reply.refusal or reply.text or "", MOST_REPLY_LENGTH),
        "model_returned": reply.model_returned,
        "system_fingerprint": reply.system_fingerprint,
        "service_tier": reply.service_tier,
        "prompt_bytes": prompt_bytes,
        **_token_columns(reply),
        "cost_usd": cost_usd,
        "latency_ms": reply.latency_ms,
        "attempts": attempts,
        "asked_at": asked_at,
    }


def _token_columns(reply: Reply) -> dict[str, int | None]:
    """Token counts as the endpoint reports them; thought that it does not count is unknown."""
    if reply.usage is None:
        return dict.fromkeys(TOKEN_COLUMNS)
    columns: dict[str, int | None] = {name: getattr(reply.usage, name) for name in TOKEN_COLUMNS}
    if reply.has_thought and not reply.usage.reasoning_tokens:
        columns["reasoning_tokens"] = None
    return columns


def read_parts(request: Request, reply: Reply, *, is_plain: bool = False) -> list[ReadReply]:
    """Readings of a reply: one, or one per batched criterion. is_plain: the endpoint was not asked to keep a schema."""
    if is_plain and request.schema is not None and reply.text is not None:
        reply = replace(reply, text=only_object(reply.text, request.schema["schema"]["required"]))
    if request.schema is None and not reply.is_completion and not request.is_embedding:
        return [unreadable("found no chat completion")]  # any text of the model is valid
    if request.read_parts is not None:
        reads = request.read_parts(reply.text, reply.finish_reason, reply.refusal)
    else:
        reads = [request.read(reply.text, reply.finish_reason, reply.refusal, reply.choices)]
    if reply.has_thought and not reply.text:
        return [unreadable(ALL_THOUGHT) if read.status == "parse_error" else read for read in reads]
    return reads


def shared_columns(columns: dict[str, Any], request: Request, count: int) -> list[dict[str, Any]]:
    """Split the columns of a reply among `count` judgments; the parts add up to the whole.

    The reply of a typed question's judgment is its own answer, as a reply to hundreds of questions is long.
    """
    if len(request.questions) == count:
        answers = own_answers(columns["reply"], request.questions)
        return [share | {"reply": answer} for share, answer in zip(_shares(columns, count), answers, strict=True)]
    return _shares(columns, count)


def _shares(columns: dict[str, Any], count: int) -> list[dict[str, Any]]:
    if count == 1:
        return [columns]
    shares = []
    for index in range(count):
        share = dict(columns) | {"attempts": columns["attempts"] if index == 0 else 0}
        for name in SPLIT_COLUMNS:
            whole = columns[name]
            share[name] = None if whole is None else whole // count + (index < whole % count)
        share["cost_usd"] = None if columns["cost_usd"] is None else columns["cost_usd"] / count
        shares.append(share)
    return shares


def evidence_text(read: ReadReply) -> str | None:
    """Requirements as a JSON list of objects, or quotes as one of texts; None without either."""
    if read.requirements:
        return orjson.dumps([entry.model_dump() for entry in read.requirements]).decode()
    return orjson.dumps(read.evidence).decode() if read.evidence else None


def distribution_text(read: ReadReply) -> str | None:
    """Probability of each level as a JSON object; None if the judge gave none."""
    return orjson.dumps(read.distribution).decode() if read.distribution else None


def outcome_of(read: ReadReply, **paid: Any) -> Outcome:
    """Outcome of a reading: scored, or unscored with the reply's status as the reason."""
    is_scored = read.status == "scored"
    return Outcome(
        "scored" if is_scored else "unscored",
        read.level_id if is_scored else None,
        evidence_text(read),
        read.rationale,
        None if is_scored else read.status,
        distribution=distribution_text(read) if is_scored else None,
        **paid,
    )


def outcome_from_rows(*rows: dict[str, Any]) -> Outcome:
    """Outcome that another session paid for. rows: one scored judgment, or one per batched criterion."""
    parts = tuple(
        Outcome(
            "scored",
            row["level_id"],
            row["evidence"],
            row["rationale"],
            judgment_id=row["judgment_id"],
            cost_usd=row["cost_usd"],
            distribution=row["distribution"],
            paid_by=row["run_id"],
        )
        for row in rows
    )
    return parts[0] if len(parts) == 1 else replace(parts[0], parts=parts)
