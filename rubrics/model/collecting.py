"""Collected outputs: messages sent to a model, the key of a paid reply, and the resulting row."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import digest_of

COLLECTED = "collected"  # key of an output's metadata with details of its collection
COLLECT_VERSION = "collect_v1"
_OWN_INSTRUCTIONS = ("system", "developer")
_USAGE_FIELDS = ("finish_reason", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "latency_ms")
_ORIGIN_FIELDS = ("model_returned", "endpoint", "asked_at")

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PromptRow:
    """Case to be answered: the columns of an output that exist before the answer."""

    case_id: str
    prompt: str | Messages
    reference: str | None = None
    context: list[str] | None = None
    metadata: dict[str, Any] | None = None
    criteria: list[dict[str, Any]] | None = None
    cluster: str | None = None


def refuse_incomplete(prompts: str | None, endpoint: str | None, checkpoint: str | None, step: int | None) -> None:
    """Raise `InputError` if a checkpoint's outputs cannot be collected with these settings, before any request."""
    if prompts is None or endpoint is None:
        present, missing = ("endpoint", "prompts") if prompts is None else ("prompts", "endpoint")
        raise InputError(f"{missing}: found none beside {present}, expected both, to collect outputs, or neither")
    if not checkpoint and step is None:  # collected outputs have no checkpoint column
        raise InputError("checkpoint: found neither a checkpoint nor a step, expected one of them, to collect outputs")


def chat_of(prompt: str | Messages, system: str | None) -> Messages:
    """Messages of a prompt. system: system message put first, unless the prompt has one."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if system is None or any(message["role"] in _OWN_INSTRUCTIONS for message in messages):
        return messages
    return [{"role": "system", "content": system}, *messages]


def chat_digest(messages: Messages) -> str:
    """Digest of messages as sent, 32 hex digits."""
    return digest_of(json.dumps(messages, sort_keys=True, separators=(",", ":")))


def collect_key(settings_digest: str, model: str, checkpoint: str | None, chat: str, sample_index: int) -> str:
    """Key of a reply: a digest of everything that affects it, 32 hex digits.

    settings_digest: of the model's settings. chat: digest of the messages. One address may serve several checkpoints
    under the same name, so the checkpoint and the model's name in the outputs are included.
    """
    return digest_of(json.dumps([COLLECT_VERSION, settings_digest, model, checkpoint, chat, sample_index]))


def output_row(
    row: PromptRow, model: str, checkpoint: str | None, sample_index: int, reply: Mapping[str, Any]
) -> dict[str, Any]:
    """Build a row of outputs. reply: its line of the journal; details of its collection go into the metadata."""
    collected = {name: reply.get(name) for name in (*_USAGE_FIELDS, *_ORIGIN_FIELDS)}
    for mark in ("is_refusal", "is_cut", "is_shared"):
        collected |= {mark: True} if reply.get(mark) else {}
    columns = {
        "case_id": row.case_id,
        "model": model,
        "checkpoint": checkpoint,
        "sample_index": sample_index,
        "prompt": row.prompt,
        "output": reply["reply"],
        "reference": row.reference,
        "context": row.context,
        "metadata": {**(row.metadata or {}), COLLECTED: collected},
        "criteria": row.criteria,
        "cluster": row.cluster,
    }
    return {name: value for name, value in columns.items() if value is not None}
