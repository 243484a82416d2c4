"""What a reply is kept as: the columns of a judgment, and the outcome that a caller is told."""

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from gradebook.rubrics.prompts.reply_parser import MOST_REPLY_LENGTH, ReadReply, clean_text
from gradebook.tasks.judging.replies.completion import Reply
from gradebook.tasks.judging.replies.question import Askable, Outcome, Request

SHARED_OUT = ("prompt_bytes", "prompt_tokens", "cached_tokens", "completion_tokens")


def judgment_row(run_id: str, question: Askable[Any], judge: str, read: ReadReply) -> dict[str, Any]:
    """The columns of JUDGMENT_SCHEMA that a reply's reading gives; those of the request are in `reply_columns`."""
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
    """The columns of JUDGMENT_SCHEMA that an HTTP 200 gives. prompt_bytes: of the messages and the schema as sent."""
    return {
        "reply": clean_text(reply.refusal or reply.text or "", MOST_REPLY_LENGTH),
        "model_returned": reply.model_returned,
        "service_tier": reply.service_tier,
        "prompt_bytes": prompt_bytes,
        "prompt_tokens": None if reply.usage is None else reply.usage.prompt_tokens,
        "cached_tokens": None if reply.usage is None else reply.usage.cached_tokens,
        "completion_tokens": None if reply.usage is None else reply.usage.completion_tokens,
        "cost_usd": cost_usd,
        "latency_ms": reply.latency_ms,
        "attempts": attempts,
        "asked_at": asked_at,
    }


def read_parts(request: Request, reply: Reply) -> list[ReadReply]:
    """What a reply says: one reading, or one for each part of a pack."""
    if request.read_parts is not None:
        return request.read_parts(reply.text, reply.finish_reason, reply.refusal)
    if request.schema is None and not reply.is_completion:  # any text will do, but only one that the model wrote
        return [ReadReply("parse_error", fault="not_json")]
    return [request.read(reply.text, reply.finish_reason, reply.refusal, reply.choices)]


def shared_columns(columns: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The columns of a reply shared out among so many judgments: what it took adds up again to what it took."""
    if count == 1:
        return [columns]
    shares = []
    for place in range(count):
        share = dict(columns) | {"attempts": columns["attempts"] if place == 0 else 0}
        for name in SHARED_OUT:
            whole = columns[name]
            share[name] = None if whole is None else whole // count + (place < whole % count)
        share["cost_usd"] = None if columns["cost_usd"] is None else columns["cost_usd"] / count
        shares.append(share)
    return shares


def evidence_text(read: ReadReply) -> str | None:
    """The quotes as a JSON list, None where there is none."""
    return orjson.dumps(read.evidence).decode() if read.evidence else None


def distribution_text(read: ReadReply) -> str | None:
    """The probability of each level as a JSON object, None where the judge gave none."""
    return orjson.dumps(read.distribution).decode() if read.distribution else None


def outcome_of(read: ReadReply, **paid: Any) -> Outcome:
    """Turn a reading into an outcome: scored, or unscored for the reply's status."""
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
    """The outcome that another session paid for. rows: of a scored judgment, or of those of a pack."""
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
