"""Examination of a judge's endpoint: what it honours, by three requests, and on this machine by a few more."""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import orjson

from gradebook.rubrics.model.errors import EndpointUnavailable, InputError, JudgeSettingsError
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices
from gradebook.tasks.judging.replies.completion import CUT_REMEDY, Reply
from gradebook.tasks.judging.replies.question import Request
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import JudgeSettings, program_words
from gradebook.tasks.judging.settings.keys import read_keys, refuse_unpaired_keys
from gradebook.tasks.judging.settings.panels import online_members
from gradebook.tasks.judging.transport.endpoint import Endpoint, Failure, request_body
from gradebook.tasks.judging.transport.probe import list_models, probe
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, DoctorFinding
from gradebook.tasks.system.operator_settings import is_loopback

LABELS = ("A", "B", "C", "D")
AT_ONCE, SHORT_TOKENS = 16, 48
GPU_IN_FLIGHT, CPU_IN_FLIGHT = 256, 4
_LENGTHS = ("max_model_len", "context_length", "max_context_length")  # vLLM and SGLang; OpenRouter; LM Studio
MASKED_LOGPROB = -1e4  # of a token that structured output forbids
_SHARED = "The river is calm today, and the boats lie still at the pier. " * 160  # longer than a cache's block
LEAST_TOKENS = len(_SHARED.split())  # of a prompt: no tokenizer joins these words
_ASKED = 'Which letter comes {place} in the alphabet? Reply with one JSON object: {{"level": "A"}}, "B", "C" or "D".'
_SHAPE = {"type": "object", "properties": {"level": {"type": "string", "enum": list(LABELS)}}, "required": ["level"]}
SCHEMA = {"name": "judgment", "strict": True, "schema": {**_SHAPE, "additionalProperties": False}}


def examine_judge(judge: str) -> Iterator[DoctorFinding]:
    """Findings about each model of a judge. Sends three requests to each, which cost as any others; to an endpoint on
    this machine also 1 + `AT_ONCE` short ones.

    Raises `InputError` for a judge that nobody asks over the network.
    """
    members = online_members(read_judge(judge, os.environ))
    if not members:
        raise InputError("--judge", judge, "a judge with an endpoint")
    for settings in members:
        if settings.batch_command is not None:
            yield _program_finding(settings)
            continue
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
        yield _context_length(settings, keys[0])
        if is_loopback(urlsplit(settings.base_url).hostname or ""):
            times = asyncio.run(_pace(settings, keys[0]))
            check = f"{settings.model}: requests in flight"
            yield (
                judge_in_flight(settings, *times) if times else DoctorFinding(check, NOTE, "the short requests failed")
            )


def _program_finding(settings: JudgeSettings) -> DoctorFinding:
    """Finding about a judge that a program answers, which is not run: it may load a model for minutes."""
    subject, command = f"{settings.model}: program", settings.batch_command or ""
    try:
        refuse_unpaired_keys(settings, os.environ)
    except JudgeSettingsError as fault:
        return DoctorFinding(subject, PROBLEM, str(fault))
    program = program_words(command, "", "")[0]
    if shutil.which(program) is None:
        return DoctorFinding(subject, PROBLEM, f"no program {program}", "install it, or name it by its path")
    return DoctorFinding(subject, OK, f"{program} is allowed; it is not run here")


async def _ask(settings: JudgeSettings, key: str) -> list[Reply | Failure]:
    endpoint = Endpoint(settings, settings, key)
    try:
        found = []
        for place, is_logprobs in (("first", False), ("second", False), ("third", True)):
            messages = [{"role": "user", "content": f"{_SHARED}\n\n{_ASKED.format(place=place)}"}]
            request = Request(messages, SCHEMA, lambda *_: ReadReply("scored"), is_logprobs=is_logprobs)
            found.append(await endpoint.send(request_body(settings, request, 0, settings.token_limit())))
        return found
    finally:
        await endpoint.close()


async def _pace(settings: JudgeSettings, key: str) -> tuple[float, float] | None:
    """Seconds for one short request alone, and for `AT_ONCE` at once; None if one fails."""
    endpoint = Endpoint(settings.model_copy(update={"max_in_flight": AT_ONCE}), settings, key)

    async def ask(number: int) -> Reply | Failure:
        asked = f"Count from {number} to {number + 40}, in words."
        request = Request([{"role": "user", "content": asked}], None, lambda *_: ReadReply("scored"))
        return await endpoint.send(request_body(settings, request, 0, SHORT_TOKENS))

    try:
        spans = []
        for numbers in ([0], range(1, AT_ONCE + 1)):
            began = time.perf_counter()
            if any(isinstance(came, Failure) for came in await asyncio.gather(*map(ask, numbers))):
                return None
            spans.append(time.perf_counter() - began)
    finally:
        await endpoint.close()
    return spans[0], spans[1]


def judge_in_flight(settings: JudgeSettings, alone_s: float, together_s: float) -> DoctorFinding:
    """Whether the endpoint works at many requests at a time, as on a GPU, or at one after another, as on a CPU.

    alone_s, together_s: as `_pace` measures them.
    """
    check, times = f"{settings.model}: requests in flight", together_s / max(alone_s, 1e-3)
    found = f"{AT_ONCE} requests at once took {times:.1f} x as long as one"
    most = settings.max_in_flight
    if times <= AT_ONCE / 4:
        mend = f"max_in_flight: {GPU_IN_FLIGHT} in the judge file" if most < GPU_IN_FLIGHT else None
        return DoctorFinding(check, NOTE if mend else OK, f"{found}; at most {most} are sent", mend)
    mend = f"max_in_flight: {CPU_IN_FLIGHT} in the judge file, or requests wait until they time out"
    is_fine = most <= CPU_IN_FLIGHT
    return DoctorFinding(check, OK if is_fine else NOTE, f"{found}; at most {most} are sent", None if is_fine else mend)


def _context_length(settings: JudgeSettings, key: str) -> DoctorFinding:
    """Tokens that a prompt and its reply may have, where the list of models tells it, as that of vLLM does."""
    check = f"{settings.model}: context length"
    try:
        models = list_models(settings, key)
    except EndpointUnavailable as fault:
        return DoctorFinding(check, NOTE, str(fault))
    entry = next((each for each in models if each.get("id") == settings.model), {})
    length = next((entry[name] for name in _LENGTHS if isinstance(entry.get(name), int)), None)
    if length is None:
        where = "the list of models names no context length" if entry else "the list of models lacks the model"
        return DoctorFinding(check, NOTE, f"{where}: longer prompts are refused when they are sent")
    found = f"{length:,} tokens, of which a reply may take {settings.token_limit():,} (max_tokens)"
    if settings.token_limit() >= length // 2:
        return DoctorFinding(check, NOTE, found, "a smaller max_tokens in the judge file leaves room for prompts")
    return DoctorFinding(check, OK, found)


Words = tuple[str, str, str | None]  # severity, what was found, the fix


def _structured(came: Reply | Failure) -> Words:
    if isinstance(came, Failure):
        return PROBLEM, f"the request failed: {came.reason}", came.remedy
    try:
        is_right = orjson.loads(came.text or "")["level"] in LABELS
    except (orjson.JSONDecodeError, LookupError, TypeError):
        is_right = False
    if is_right:
        return OK, "json_schema is honoured", None
    found = "json_schema is not honoured: the reply is not the object asked for"
    return NOTE, found, "reply_format: text in the judge file"


def _cached(came: Reply | Failure) -> Words:
    if isinstance(came, Failure):
        return PROBLEM, f"the request failed: {came.reason}", came.remedy
    if came.usage is None:
        return NOTE, "the reply has no usable token counts: costs are unknown", None
    if came.usage.prompt_tokens < LEAST_TOKENS:
        found = f"{came.usage.prompt_tokens:,} tokens counted of a prompt of more than {LEAST_TOKENS:,} words"
        return PROBLEM, f"{found}: the count can't be true, or the prompt was cut", CUT_REMEDY
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
