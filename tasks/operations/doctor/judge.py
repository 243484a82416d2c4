"""Examination of a judge's endpoint: what it honours, by three small requests."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import orjson

from gradebook.rubrics.model.errors import EndpointUnavailable, InputError
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices
from gradebook.tasks.judging.replies.completion import Reply
from gradebook.tasks.judging.replies.question import Request
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.settings.panels import online_members
from gradebook.tasks.judging.transport.endpoint import Endpoint, Failure, request_body
from gradebook.tasks.judging.transport.probe import probe
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, DoctorFinding

LABELS = ("A", "B", "C", "D")
MASKED_LOGPROB = -1e4  # of a token that structured output forbids
_SHARED = "The river is calm today, and the boats lie still at the pier. " * 160  # longer than a cache's block
_ASKED = 'Which letter comes {place} in the alphabet? Reply with one JSON object: {{"level": "A"}}, "B", "C" or "D".'
_SHAPE = {"type": "object", "properties": {"level": {"type": "string", "enum": list(LABELS)}}, "required": ["level"]}
SCHEMA = {"name": "judgment", "strict": True, "schema": {**_SHAPE, "additionalProperties": False}}


def examine_judge(judge: str) -> Iterator[DoctorFinding]:
    """Findings about each model of a judge. Sends three requests to each, which cost as any others.

    Raises `InputError` for a judge that nobody asks over the network.
    """
    members = online_members(read_judge(judge, os.environ))
    if not members:
        raise InputError("--judge", judge, "a judge with an endpoint")
    for settings in members:
        try:
            keys = read_keys(settings, os.environ)
            probe(settings, keys)
            replies = asyncio.run(_ask(settings, keys[0]))
        except EndpointUnavailable as fault:
            yield DoctorFinding(f"{settings.model}: endpoint", PROBLEM, str(fault))
            continue
        for name, finding in zip(("structured output", "prefix cache", "log-probabilities"), replies, strict=True):
            severity, found, mend = _FINDINGS[name](finding)
            yield DoctorFinding(f"{settings.model}: {name}", severity, found, mend)


async def _ask(settings: JudgeSettings, key: str) -> list[Reply | Failure]:
    endpoint = Endpoint(settings, settings, key)
    try:
        found = []
        for place, is_logprobs in (("first", False), ("second", False), ("third", True)):
            messages = [{"role": "user", "content": f"{_SHARED}\n\n{_ASKED.format(place=place)}"}]
            request = Request(messages, SCHEMA, lambda *_: ReadReply("scored"), is_logprobs=is_logprobs)
            found.append(await endpoint.send(request_body(settings, request, 0, settings.max_tokens)))
        return found
    finally:
        await endpoint.close()


Words = tuple[str, str, str | None]  # severity, what was found, the fix


def _structured(came: Reply | Failure) -> Words:
    text = "reply_format: text in the judge file"
    if isinstance(came, Failure):
        return PROBLEM, f"the request failed: {came.reason}", text
    try:
        is_right = orjson.loads(came.text or "")["level"] in LABELS
    except (orjson.JSONDecodeError, LookupError, TypeError):
        is_right = False
    if is_right:
        return OK, "json_schema is honoured", None
    return NOTE, "json_schema is not honoured: the reply is not the object asked for", text


def _cached(came: Reply | Failure) -> Words:
    if isinstance(came, Failure):
        return PROBLEM, f"the request failed: {came.reason}", None
    if came.usage is None:
        return NOTE, "the reply has no usable token counts: costs are unknown", None
    share = came.usage.cached_tokens / max(1, came.usage.prompt_tokens)
    counted = f"{came.usage.cached_tokens:,} of {came.usage.prompt_tokens:,} tokens of a repeated prompt"
    if share >= 0.5:
        return OK, f"{counted} came from the cache", None
    mend = "turn prefix caching on (vLLM: --enable-prefix-caching), or expect to pay for each criterion's whole prompt"
    return NOTE, f"{counted} came from the cache, as the endpoint counts", mend


def _logprobs(came: Reply | Failure) -> Words:
    if isinstance(came, Failure):
        return NOTE, f"mode: logprobs can't be used: {came.reason}", None
    place = _label_place(came.choices)
    if place is None:
        return NOTE, "mode: logprobs can't be used: no token of the reply is a label alone, with its probability", None
    others = [logprob for token, logprob in place if token.strip(_AROUND) not in LABELS]
    is_masked = all(logprob <= MASKED_LOGPROB for logprob in others)
    kind = "masked by the schema" if is_masked else "raw"
    mend = "vLLM: --logprobs-mode raw_logprobs" if is_masked else None
    if len(place) <= len(LABELS):
        found = f"{len(place)} alternatives a token, expected more than {len(LABELS)}"
        return NOTE, f"{found}: levels may have no probability", "vLLM: --max-logprobs 20"
    return NOTE if is_masked else OK, f"a label is one token, {len(place)} alternatives, probabilities {kind}", mend


_AROUND = ' \t\r\n":{}\u2581\u0120\u010a'


def _label_place(choices: TokenChoices | None) -> list[tuple[str, float]] | None:
    """Alternatives at the last token that is a label, each token once."""
    for token in reversed(choices or ()):
        if token[0][0].strip(_AROUND) in LABELS:
            return [*dict(token).items()]
    return None


_FINDINGS: dict[str, Any] = {"structured output": _structured, "prefix cache": _cached, "log-probabilities": _logprobs}
