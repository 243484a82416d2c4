"""Examination of a judge's endpoint: features that it supports, by three requests, and on this machine by a few more.

Also finds the reply form (schema, JSON object, tool or text) that can be read, and writes a judge file with the
settings that the endpoint accepts.
"""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson
import yaml

from gradebook.rubrics.model.errors import EndpointUnavailable, InputError, JudgeSettingsError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.decisions import FALSE, TRUE, Option, TypedQuestion, read_answers
from gradebook.rubrics.prompts.prompt import Case, case_digest, criterion_digest, request_key
from gradebook.rubrics.prompts.reply_parser import ReadReply, TokenChoices, only_object, read_ending
from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.judging.prices import BYTES_PER_TOKEN, Usage, cost_usd, find_price, prompt_bytes
from gradebook.tasks.judging.replies.completion import CUT_REMEDY, Reply, describe_unreadable, parse_body
from gradebook.tasks.judging.replies.judgment_row import read_parts
from gradebook.tasks.judging.replies.question import Question, Request
from gradebook.tasks.judging.settings.files import SUFFIXES, read_judge
from gradebook.tasks.judging.settings.judge import REASONED_TOKENS, JudgeSettings, program_arguments
from gradebook.tasks.judging.settings.keys import read_keys, refuse_unpaired_keys
from gradebook.tasks.judging.settings.learned import learned_setting
from gradebook.tasks.judging.transport.connection import Connection, Failure
from gradebook.tasks.judging.transport.endpoint import request_body
from gradebook.tasks.judging.transport.probe import list_models, probe
from gradebook.tasks.judging.transport.retry_policy import wait_s
from gradebook.tasks.operations.doctor.findings import NOTE, OK, PROBLEM, DoctorFinding
from gradebook.tasks.planning.estimates import USUAL_COMPLETION_TOKENS, USUAL_REASONING_TOKENS
from gradebook.tasks.system.files import refuse_file, write_text
from gradebook.tasks.system.operator_settings import is_loopback

AT_ONCE, SHORT_TOKENS = 16, 48
_STATE, _TYPED = "The river is calm today, and the boats lie still at the pier.", "The text speaks of boats."
GPU_IN_FLIGHT, CPU_IN_FLIGHT = 256, 4
_LENGTHS = ("max_model_len", "context_length", "max_context_length")  # vLLM and SGLang; OpenRouter; LM Studio
MASKED_LOGPROB = -1e4  # of a token that structured output forbids
_SHARED = "The river is calm today, and the boats lie still at the pier. " * 160  # longer than a cache's block
LEAST_TOKENS = len(_SHARED.split())  # of the prompt: every tokenizer gives each word a token or more
_NTH_LETTER_QUESTION = (
    'Which letter comes {place} in the alphabet? Reply with one JSON object: {{"level": "A"}}, "B", "C" or "D".'
)


def examine_judge(judge: str) -> Iterator[DoctorFinding]:
    """Findings about each model of a judge. Sends three requests to each, which cost as any others; to an endpoint on
    this machine also 1 + `AT_ONCE` short ones; to a decision model one.

    Raises `InputError` for a judge without an endpoint.
    """
    members = read_judge(judge, os.environ).online
    if not members:
        raise InputError("--judge", judge, "a judge with an endpoint")
    for settings in members:
        if settings.batch_command is not None:
            yield _program_finding(settings)
            continue
        if settings.is_decision:
            yield _decision_finding(settings)
            continue
        try:
            keys = read_keys(settings, os.environ)
            probe(settings, keys)
            replies = asyncio.run(_send_probes(settings, keys[0]))
        except EndpointUnavailable as fault:
            yield DoctorFinding(f"{settings.model}: endpoint", PROBLEM, str(fault))
            continue
        for name, finding in zip(("structured output", "prefix cache", "log-probabilities"), replies, strict=True):
            severity, summary, fix = _FINDINGS[name](settings, finding)
            yield DoctorFinding(f"{settings.model}: {name}", severity, summary, fix)
        yield _context_length(settings, keys[0])
        if is_loopback(urlsplit(settings.base_url).hostname or ""):
            times = asyncio.run(_measure_pace(settings, keys[0]))
            check = f"{settings.model}: requests in flight"
            yield (
                judge_in_flight(settings, *times) if times else DoctorFinding(check, NOTE, "the short requests failed")
            )


def _decision_finding(settings: JudgeSettings) -> DoctorFinding:
    """Whether a decision model answers a typed question with a probability."""
    check = f"{settings.model}: typed questions"
    question = TypedQuestion("q1_doctor", "predicate", _TYPED, (Option(FALSE, FALSE), Option(TRUE, TRUE)))
    messages = [{"role": "user", "content": _STATE}]
    request = Request(messages, None, lambda *_: ReadReply("scored"), questions=(question,))
    try:
        keys = read_keys(settings, os.environ)
        probe(settings, keys)
        reply = asyncio.run(_send(settings, keys[0], request))
    except EndpointUnavailable as fault:
        return DoctorFinding(f"{settings.model}: endpoint", PROBLEM, str(fault))
    if isinstance(reply, Failure):
        return DoctorFinding(check, PROBLEM, f"the request failed: {reply.reason}", reply.remedy)
    (read_reply,) = read_answers(reply.text, [question])
    if read_reply.distribution is None:
        problem = read_reply.rationale or read_reply.status
        return DoctorFinding(check, PROBLEM, f"the answer can't be used: {problem}", "another `form` or model")
    answered_by = f", answered by {reply.model_returned}" if reply.model_returned else ""
    shares = f"{read_reply.distribution[TRUE]:.0%} for what is true"
    counts = "" if reply.usage else "; no usable token counts: costs are unknown"
    return DoctorFinding(check, OK, f"answered with probabilities, {shares}{answered_by}{counts}")


async def _send(settings: JudgeSettings, key: str, request: Request) -> Reply | Failure:
    connection = Connection(settings, settings, key)
    try:
        return await connection.send(request_body(settings, request, 0, 0))
    finally:
        await connection.close()


def _program_finding(settings: JudgeSettings) -> DoctorFinding:
    """Finding about a judge that a program answers, which is not run: it may load a model for minutes."""
    subject, command = f"{settings.model}: program", settings.batch_command or ""
    try:
        refuse_unpaired_keys(settings, os.environ)
    except JudgeSettingsError as fault:
        return DoctorFinding(subject, PROBLEM, str(fault))
    program = program_arguments(command, "", "")[0]
    if shutil.which(program) is None:
        return DoctorFinding(subject, PROBLEM, f"no program {program}", "install it, or name it by its path")
    return DoctorFinding(subject, OK, f"{program} is allowed; it is not run here")


async def _send_probes(settings: JudgeSettings, key: str) -> list[Reply | Failure]:
    connection = Connection(settings, settings, key)
    try:
        replies = []
        for ordinal, is_logprobs in (("first", False), ("second", False), ("third", True)):
            messages = [{"role": "user", "content": f"{_SHARED}\n\n{_NTH_LETTER_QUESTION.format(place=ordinal)}"}]
            request = Request(messages, SCHEMA, _read, is_logprobs=is_logprobs, is_shared=True)
            replies.append(await connection.send(request_body(settings, request, 0, settings.token_limit())))
        return replies
    finally:
        await connection.close()


async def _measure_pace(settings: JudgeSettings, key: str) -> tuple[float, float] | None:
    """Seconds for one short request alone, and for `AT_ONCE` at once; None if one fails."""
    connection = Connection(settings.model_copy(update={"max_in_flight": AT_ONCE}), settings, key)

    async def ask(number: int) -> Reply | Failure:
        prompt = f"Count from {number} to {number + 40}, in words."
        request = Request([{"role": "user", "content": prompt}], None, _read)
        return await connection.send(request_body(settings, request, 0, SHORT_TOKENS))

    try:
        spans = []
        for numbers in ([0], range(1, AT_ONCE + 1)):
            began = time.perf_counter()
            if any(isinstance(reply, Failure) for reply in await asyncio.gather(*map(ask, numbers))):
                return None
            spans.append(time.perf_counter() - began)
    finally:
        await connection.close()
    return spans[0], spans[1]


def judge_in_flight(settings: JudgeSettings, alone_s: float, together_s: float) -> DoctorFinding:
    """Finding: whether the endpoint answers requests in parallel, as on a GPU, or one after another, as on a CPU.

    alone_s, together_s: as `_measure_pace` measures them.
    """
    check, times = f"{settings.model}: requests in flight", together_s / max(alone_s, 1e-3)
    pace = f"{AT_ONCE} requests at once took {times:.1f} x as long as one"
    most = settings.max_in_flight
    if times <= AT_ONCE / 4:
        fix = f"max_in_flight: {GPU_IN_FLIGHT} in the judge file" if most < GPU_IN_FLIGHT else None
        return DoctorFinding(check, NOTE if fix else OK, f"{pace}; at most {most} are sent", fix)
    fix = f"max_in_flight: {CPU_IN_FLIGHT} in the judge file, or requests wait until they time out"
    is_fine = most <= CPU_IN_FLIGHT
    return DoctorFinding(check, OK if is_fine else NOTE, f"{pace}; at most {most} are sent", None if is_fine else fix)


def _context_length(settings: JudgeSettings, key: str) -> DoctorFinding:
    """Finding: most tokens of a prompt and its reply, if the endpoint's list of models gives it, as vLLM's does."""
    check = f"{settings.model}: context length"
    try:
        models = list_models(settings, key)
    except EndpointUnavailable as fault:
        return DoctorFinding(check, NOTE, str(fault))
    entry = next((listed_model for listed_model in models if listed_model.get("id") == settings.model), {})
    length = next((entry[name] for name in _LENGTHS if isinstance(entry.get(name), int)), None)
    if length is None:
        reason = "the list of models names no context length" if entry else "the list of models lacks the model"
        return DoctorFinding(check, NOTE, f"{reason}: longer prompts are refused when they are sent")
    summary = f"{length:,} tokens, of which a reply may take {settings.token_limit():,} (max_tokens)"
    if settings.token_limit() >= length // 2:
        return DoctorFinding(check, NOTE, summary, "a smaller max_tokens in the judge file leaves room for prompts")
    return DoctorFinding(check, OK, summary)


def _read(*_: object) -> ReadReply:
    return ReadReply("scored")


FindingParts = tuple[str, str, str | None]  # severity, observation, fix


def _structured_output_finding(settings: JudgeSettings, reply: Reply | Failure) -> FindingParts:
    if isinstance(reply, Failure):
        return PROBLEM, f"the request failed: {reply.reason}", reply.remedy
    try:
        text = reply.text or ""
        is_right = orjson.loads(only_object(text, ["level"]) if settings.is_plain else text)["level"] in LABELS
    except (orjson.JSONDecodeError, LookupError, TypeError):
        is_right = False
    if is_right:
        return OK, f"{settings.reply_format} is honoured", None
    summary = f"{settings.reply_format} is not honoured: the reply is not the object asked for"
    return NOTE, summary, None if settings.reply_format == "text" else "reply_format: text in the judge file"


def _cache_finding(_: JudgeSettings, reply: Reply | Failure) -> FindingParts:
    if isinstance(reply, Failure):
        return PROBLEM, f"the request failed: {reply.reason}", reply.remedy
    if reply.usage is None:
        return NOTE, "the reply has no usable token counts: costs are unknown", None
    if reply.usage.prompt_tokens < LEAST_TOKENS:
        summary = f"{reply.usage.prompt_tokens:,} tokens counted of a prompt of more than {LEAST_TOKENS:,} words"
        return PROBLEM, f"{summary}: the count can't be true, or the prompt was cut", CUT_REMEDY
    share = reply.usage.cached_tokens / max(1, reply.usage.prompt_tokens)
    cached_tokens = f"{reply.usage.cached_tokens:,} of {reply.usage.prompt_tokens:,} tokens of a repeated prompt"
    if share >= 0.5:
        return OK, f"{cached_tokens} came from the cache", None
    fix = "turn prefix caching on (vLLM: --enable-prefix-caching), or expect to pay for each criterion's whole prompt"
    return NOTE, f"{cached_tokens} came from the cache, as the endpoint counts", fix


def _logprobs_finding(_: JudgeSettings, reply: Reply | Failure) -> FindingParts:
    if isinstance(reply, Failure):
        return NOTE, f"mode: logprobs can't be used: {reply.reason}", None
    alternatives = _label_alternatives(reply.choices)
    if alternatives is None:
        return NOTE, "mode: logprobs can't be used: no token of the reply is a label alone, with its probability", None
    other_logprobs = [logprob for token, logprob in alternatives if token.strip(_AROUND) not in LABELS]
    is_masked = all(logprob <= MASKED_LOGPROB for logprob in other_logprobs)
    kind = "masked by the schema" if is_masked else "raw"
    fix = "vLLM: --logprobs-mode raw_logprobs" if is_masked else None
    if len(alternatives) <= len(LABELS):
        summary = f"{len(alternatives)} alternatives a token, expected more than {len(LABELS)}"
        return NOTE, f"{summary}: levels may have no probability", "vLLM: --max-logprobs 20"
    return (
        NOTE if is_masked else OK,
        f"a label is one token, {len(alternatives)} alternatives, probabilities {kind}",
        fix,
    )


_AROUND = ' \t\r\n":{}\u2581\u0120\u010a'


def _label_alternatives(choices: TokenChoices | None) -> list[tuple[str, float]] | None:
    """Alternatives at the last token that is a label, each token once."""
    for token in reversed(choices or ()):
        if token[0][0].strip(_AROUND) in LABELS:
            return [*dict(token).items()]
    return None


_FINDINGS: dict[str, Any] = {
    "structured output": _structured_output_finding,
    "prefix cache": _cache_finding,
    "log-probabilities": _logprobs_finding,
}


QUESTION_COUNT, LEAST_READ, ASKED_AT_ONCE, MOST_ASKED_AGAIN = 20, 19, 4, 5
READ = ("scored", "evidence_unverified", "abstained")  # statuses of a readable reply
_CRITERION = Criterion.model_validate(
    {
        "id": "right",
        "description": "Is the sum right?",
        "method": {"type": "judge"},
        "levels": [
            {"id": "wrong", "score": 0, "description": "The answer names another number."},
            {"id": "near", "score": 0.5, "description": "The answer is off by one."},
            {"id": "right", "score": 1, "description": "The answer names the sum."},
        ],
    }
)
_QUESTIONS = tuple(
    Question(
        f"{number:032x}",
        _CRITERION,
        case := Case(f"What is {number} plus {number + 3}?", f"The sum is {2 * number + 3 + number % 3}, I believe."),
        request_key("0" * 32, criterion_digest(_CRITERION), case_digest(case)),
    )
    for number in range(QUESTION_COUNT)
)


def structure_price(judge: str) -> str:
    """Sentence on what `examine_structure` will cost, before it asks. Raises `InputError` for a judge without texts."""
    sentences = []
    for settings in _text_models(judge):
        prompts = [question.request() for question in _QUESTIONS]
        tokens = sum(prompt_bytes(prompt.messages, prompt.schema) for prompt in prompts) / BYTES_PER_TOKEN
        reasoned = USUAL_REASONING_TOKENS.get(settings.reasoning_effort, 0.0) if settings.is_reasoning else 0.0
        completions = QUESTION_COUNT * (USUAL_COMPLETION_TOKENS + reasoned)
        usd = cost_usd(find_price(settings), Usage(round(tokens), 0, round(completions)), QUESTION_COUNT)
        price = "its price is unknown" if usd is None else f"about {price_words(usd)} a form"
        sentences.append(
            f"{settings.model}: {QUESTION_COUNT} questions in each of {len(FORMATS[settings.form])} forms, the "
            f"strictest first, until {LEAST_READ} replies can be read: {price}"
        )
    return "; ".join(sentences)


def examine_structure(judge: str) -> Iterator[DoctorFinding]:
    """Finding for each reply form that is tried: the share of readable replies. Stops at the first form that works.

    Raises `InputError` for a judge that writes no texts at an endpoint.
    """
    for settings in _text_models(judge):
        try:
            keys = read_keys(settings, os.environ)
            probe(settings, keys)
            yield from asyncio.run(_try_forms(settings, keys[0]))
        except EndpointUnavailable as fault:
            yield DoctorFinding(f"{settings.model}: structure", PROBLEM, str(fault))


def _text_models(judge: str) -> list[JudgeSettings]:
    members = [
        member
        for member in read_judge(judge, os.environ).online
        if not member.is_decision and member.batch_command is None
    ]
    if not members:
        raise InputError("--structure", f"--judge {judge}", "a judge that writes texts at an endpoint")
    return members


async def _try_forms(settings: JudgeSettings, key: str) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    for form in FORMATS[settings.form]:
        read_count, loose_count, fault, settings = await _ask_questions(
            settings.model_copy(update={"reply_format": form}), key
        )
        loose = f", {loose_count} of them no JSON as they stand" if loose_count else ""
        summary = f"{read_count} of {QUESTION_COUNT} replies can be read{loose}"
        check = f"{settings.model}: {form}"
        if read_count >= LEAST_READ:
            fix = None if form == FORMATS[settings.form][0] else f"reply_format: {form} in the judge file"
            return [*findings, DoctorFinding(check, OK, summary, fix)]
        findings.append(DoctorFinding(check, NOTE, f"{summary}; {fault}"))
    return [*findings, DoctorFinding(f"{settings.model}: structure", PROBLEM, "no form holds", "another model")]


async def _ask_questions(settings: JudgeSettings, key: str) -> tuple[int, int, str, JudgeSettings]:
    """Number of readable replies, and of replies that break their schema; the first fault; and the settings without
    what was refused.
    """
    turns = asyncio.Semaphore(ASKED_AT_ONCE)
    loose_count = 0

    async def ask(question: Question, settings: JudgeSettings) -> tuple[str | None, Failure | None]:
        """Fault of the reply, None if it can be read; and the failure, if there is no reply."""
        nonlocal loose_count
        request = question.request()
        async with turns:
            reply = await _send_patiently(connection, request_body(settings, request, 0, settings.token_limit()))
        if isinstance(reply, Failure):
            return reply.reason, reply
        (read_reply,) = read_parts(request, reply, is_plain=settings.is_plain)
        loose_count += read_reply.status in READ and parse_body((reply.text or "").encode()) is None
        return (
            None
            if read_reply.status in READ
            else describe_unreadable(reply.text, read_reply.status, read_reply.rationale)
        ), None

    connection = Connection(settings, settings, key)
    try:
        first = await ask(_QUESTIONS[0], settings)
        learned = learned_setting(settings, first[1].parameter) if first[1] else None
        if learned is not None and learned[0] != "reply_format":
            settings = settings.model_copy(update=dict([learned]))
            first = await ask(_QUESTIONS[0], settings)
        if first[1] is not None:  # the others would be refused too
            return 0, 0, str(first[0]), settings
        other_replies = await asyncio.gather(*(ask(question, settings) for question in _QUESTIONS[1:]))
    finally:
        await connection.close()
    failures = [failure for _, failure in other_replies if failure is not None and failure.is_retried]
    if failures:  # no reply says nothing about its form
        lack = f"{len(failures)} of {QUESTION_COUNT} requests got no reply, the last: {failures[-1].reason}"
        raise EndpointUnavailable(f"{settings.base_url}: {lack}; expected a reply to each: try again later")
    faults = [fault for fault, _ in (first, *other_replies) if fault is not None]
    return QUESTION_COUNT - len(faults), loose_count, f"the first is {faults[0]}" if faults else "", settings


async def _send_patiently(connection: Connection, body: dict[str, Any]) -> Reply | Failure:
    """Send a request again, after a wait, while it fails in a way that may pass: a rate limit, an overload."""
    rng = np.random.default_rng()
    response = await connection.send(body)
    for failure_count in range(MOST_ASKED_AGAIN):
        if isinstance(response, Reply) or not response.is_retried:
            break
        await asyncio.sleep(wait_s(failure_count, response.retry_after_s, rng))
        response = await connection.send(body)
    return response


MOST_ASKED = 6  # requests: one for each setting that may change, and a last one
LABELS = ("A", "B", "C", "D")
_SHAPE = {"type": "object", "properties": {"level": {"type": "string", "enum": list(LABELS)}}, "required": ["level"]}
SCHEMA = {"name": "judgment", "strict": True, "schema": {**_SHAPE, "additionalProperties": False}}
_FIRST_LETTER_QUESTION = (
    'Which letter comes first in the alphabet? Reply with one JSON object: {"level": "A"}, "B", "C" or "D", '
    "and nothing else."
)
# By form: how a reply may be asked for, the strictest first.
FORMATS = {"openai": ("json_schema", "json_object", "tool", "text"), "anthropic": ("json_schema", "tool", "text")}
_FIRST = ("model", "base_url", "form", "key")


def refuse_judge_file(path: Path) -> None:
    """Raise `InputError` for a path where no judge file can be written."""
    refuse_file("--write", path, SUFFIXES, "a file that ends in .yaml, which --judge takes")


def write_judge_file(judge: str, path: Path) -> DoctorFinding:
    """Ask a judge until a reply can be read, changing settings that it refuses, and write its settings to a file.

    Settings of the judge's own file stay. No file is written where no reply could be read. Raises `InputError` for a
    path that can't be a new judge file, and for a judge that isn't one model behind an endpoint.
    """
    refuse_judge_file(path)
    settings = read_judge(judge, os.environ).as_model
    if settings is None or settings.batch_command is not None:
        raise InputError("--write", f"--judge {judge}", "one model with an endpoint")
    check = f"{settings.model}: judge file"
    try:
        keys = read_keys(settings, os.environ)
        probe(settings, keys)
        settings, fault = asyncio.run(_learn_settings(settings, keys[0]))
    except EndpointUnavailable as unavailable:
        return DoctorFinding(check, PROBLEM, f"not written: {unavailable}")
    if fault is not None:
        return DoctorFinding(check, PROBLEM, f"not written: {fault}")
    write_text(path, judge_file_text(settings))
    return DoctorFinding(check, OK, f"a reply could be read as {settings.reply_format}; {path} has the settings")


async def _learn_settings(settings: JudgeSettings, key: str) -> tuple[JudgeSettings, str | None]:
    """(settings that gave a readable reply, None), or (last settings, last fault)."""
    fault = "no request was sent"
    connection = Connection(settings, settings, key)
    try:
        for _ in range(MOST_ASKED):
            request = Request([{"role": "user", "content": _FIRST_LETTER_QUESTION}], SCHEMA, _read)
            reply = await connection.send(request_body(settings, request, 0, settings.token_limit()))
            change, fault = _setting_to_change(settings, reply)
            if change is None:
                return settings, fault or None
            settings = settings.model_copy(update=change)
    finally:
        await connection.close()
    return settings, fault


def _setting_to_change(settings: JudgeSettings, reply: Reply | Failure) -> tuple[dict[str, Any] | None, str]:
    """Setting to change after a reply, or None; and the fault of the reply, or an empty text."""
    own_settings = settings.model_fields_set
    if isinstance(reply, Failure):
        learned = learned_setting(settings, reply.parameter)
        remedy = "" if reply.remedy is None else f"; {reply.remedy}"
        return None if learned is None else dict([learned]), f"the request failed: {reply.reason}{remedy}"
    ending = read_ending(reply.finish_reason, reply.refusal)
    if ending is not None and ending.status == "truncated":
        fault = "the reply was cut off at its token limit; set a larger `max_tokens`"
        return None if "max_tokens" in own_settings else {"max_tokens": REASONED_TOKENS}, fault
    if _is_label(settings, reply.text or ""):
        return None, ""
    formats = FORMATS[settings.form]
    weaker = formats[formats.index(settings.reply_format) + 1 :]
    fault = f"no reply could be read, the last as {settings.reply_format}"
    return {"reply_format": weaker[0]} if weaker else None, fault


def _is_label(settings: JudgeSettings, text: str) -> bool:
    """Whether a reply contains one of the labels in the requested place."""
    try:
        return orjson.loads(only_object(text, ["level"]) if settings.is_plain else text)["level"] in LABELS
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return False


def judge_file_text(settings: JudgeSettings) -> str:
    """Text of a judge file with the address and every setting that was given or learned."""
    settings_json = json.loads(settings.model_dump_json(exclude_unset=True))
    if settings.form == "openai":
        settings_json.pop("form", None)
    first_settings = {name: settings_json.pop(name) for name in _FIRST if name in settings_json} | {
        "base_url": settings.base_url
    }
    ordered = {name: first_settings[name] for name in _FIRST if name in first_settings}
    return yaml.safe_dump(ordered | settings_json, sort_keys=False, allow_unicode=True)
