"""Collected outputs: what a model is sent, the name under which its reply is paid for once, and the row it becomes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.model.errors import InputError

COLLECTED = "collected"  # the key of an output's metadata under which stands how it came about
COLLECT_VERSION = "collect_v1"
_OWN_INSTRUCTIONS = ("system", "developer")
_KEPT = ("finish_reason", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "latency_ms")
_KEPT_ALSO = ("model_returned", "endpoint", "asked_at")

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One case to be answered: the columns of an output that stand before there is one."""

    case_id: str
    prompt: str | Messages
    reference: str | None = None
    context: list[str] | None = None
    metadata: dict[str, Any] | None = None
    criteria: list[dict[str, Any]] | None = None
    cluster: str | None = None


def refuse_incomplete(prompts: str | None, endpoint: str | None, checkpoint: str | None, step: int | None) -> None:
    """Raise `InputError` where a checkpoint's outputs can't be collected by what is named: nothing was asked."""
    if prompts is None or endpoint is None:
        found, missing = ("endpoint", "prompts") if prompts is None else ("prompts", "endpoint")
        raise InputError(f"{missing}: found none beside {found}, expected both, to collect outputs, or neither")
    if not checkpoint and step is None:  # collected outputs have no column that says it
        raise InputError("checkpoint: found neither a checkpoint nor a step, expected one of them, to collect outputs")


def chat_of(prompt: str | Messages, system: str | None) -> Messages:
    """The messages of a prompt. system: goes first, unless the prompt brings instructions of its own."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if system is None or any(message["role"] in _OWN_INSTRUCTIONS for message in messages):
        return messages
    return [{"role": "system", "content": system}, *messages]


def chat_digest(messages: Messages) -> str:
    """Hash of messages as they are sent, 32 hex digits."""
    return _digest(json.dumps(messages, sort_keys=True, separators=(",", ":")))


def collect_key(asked: str, model: str, checkpoint: str | None, chat: str, sample_index: int) -> str:
    """Name a reply by all that bears on it, 32 hex digits.

    asked: digest of the model's settings. chat: digest of the messages. An address serves one checkpoint after the
    other under one name, so the checkpoint counts too, and the name that the outputs are to have.
    """
    return _digest(json.dumps([COLLECT_VERSION, asked, model, checkpoint, chat, sample_index]))


def output_row(
    row: PromptRow, model: str, checkpoint: str | None, sample_index: int, reply: Mapping[str, Any]
) -> dict[str, Any]:
    """A row of outputs. reply: its line of the journal; how it came about goes into the metadata."""
    collected = {name: reply.get(name) for name in (*_KEPT, *_KEPT_ALSO)}
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


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
