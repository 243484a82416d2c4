"""Files of batches: requests as uploaded, replies as downloaded, one JSON line each."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.reply_parser import clean_text
from gradebook.tasks.judging.prices import Price, cost_usd, most_tokens, worst_cost_usd
from gradebook.tasks.judging.replies.completion import Reply
from gradebook.tasks.judging.replies.question import Askable
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Form
from gradebook.tasks.judging.transport.endpoint import ENDPOINTS, request_body
from gradebook.tasks.judging.transport.retry_policy import may_be_billed
from gradebook.tasks.system.files import replaced_file, write_text

MOST_REQUESTS = 50_000  # maximum that endpoints accept in one file
MOST_BYTES = 200_000_000
REQUEST_URL: Final = "/v1/chat/completions"
BATCH_TIER = "batch"
MOST_LINE_BYTES = 2**24  # of a reply, as online
MOST_WORDS = 500  # characters of a failure


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum size of one file of requests."""

    request_count: int = MOST_REQUESTS
    byte_count: int = MOST_BYTES


@dataclass(frozen=True, slots=True)
class RequestFile:
    """File of requests, ready for upload. The other fields are those of `Intent`."""

    intent_id: str
    path: Path
    digest: str
    request_count: int
    worst_usd: float
    largest_usd: float
    first_shard: int
    last_shard: int


@dataclass(slots=True)
class _Filling:
    """Counts of a file while it is written."""

    hashed: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))
    keys: list[str] = field(default_factory=list)
    byte_count: int = 0
    worst_usd: float = 0.0
    largest_usd: float = 0.0
    shards: list[int] = field(default_factory=list)  # first and last


@dataclass(frozen=True, slots=True)
class _Line:
    """Request to write: its key, shard, text and worst cost."""

    key: str
    shard: int
    text: bytes
    worst_usd: float


def requests_path(folder: Path, intent_id: str) -> Path:
    """Path of an intent's requests until they are sent."""
    return folder / f"{intent_id}.requests.jsonl"


def keys_path(folder: Path, intent_id: str) -> Path:
    """Path of an intent's request keys, which stay until the end of the run."""
    return folder / f"{intent_id}.keys"


def read_request_keys(folder: Path, intent_id: str) -> set[str]:
    return set(keys_path(folder, intent_id).read_text(encoding="ascii").split())


def remove_requests(folder: Path, intent_id: str) -> None:
    """Delete a file of requests that was not sent; its keys may be used in another."""
    requests_path(folder, intent_id).unlink(missing_ok=True)
    keys_path(folder, intent_id).unlink(missing_ok=True)


def write_request_files(
    folder: Path,
    questions: Iterable[tuple[int, Askable[Any]]],
    settings: JudgeSettings,
    price: Price | None,
    left_usd: float,
    limits: Limits = Limits(),
) -> Iterator[RequestFile]:
    """Write questions, each with the index of its shard, into files of requests; yields each finished file.

    Stops when the next request could cost more than the remaining budget. Requests larger than a file may be are left
    out.
    """
    lines = (_line(shard, question, settings, price) for shard, question in questions)
    small = (line for line in lines if line is not None and len(line.text) <= limits.byte_count)
    waiting: _Line | None = None
    while (waiting := waiting or next(small, None)) is not None and waiting.worst_usd <= left_usd:
        intent_id = secrets.token_hex(16)
        filling = _Filling()
        with replaced_file(requests_path(folder, intent_id)) as temporary, temporary.open("wb") as file:
            while waiting is not None and _fits(filling, waiting, left_usd, limits):
                _write_line(file, filling, waiting)
                waiting = next(small, None)
        write_text(keys_path(folder, intent_id), "\n".join(filling.keys))
        left_usd -= filling.worst_usd
        yield RequestFile(
            intent_id,
            requests_path(folder, intent_id),
            filling.hashed.hexdigest(),
            len(filling.keys),
            filling.worst_usd,
            filling.largest_usd,
            filling.shards[0],
            filling.shards[-1],
        )


def _line(shard: int, question: Askable[Any], settings: JudgeSettings, price: Price | None) -> _Line | None:
    try:
        request = question.request()
    except UnreadableMedia:  # asked online, where the reason is reported
        return None
    max_tokens = settings.token_limit(request.max_tokens)
    body = request_body(settings, request, question.replicate, max_tokens)
    body.pop("service_tier", None)  # a batch is a tier of its own
    line: dict[str, Any] = {"custom_id": question.request_key}
    is_message = settings.form == "anthropic" and settings.batch_command is None  # programs read OpenAI's lines
    line |= {"params": body} if is_message else {"method": "POST", "url": REQUEST_URL, "body": body}
    tier = None if settings.batch_command else BATCH_TIER  # a program is paid in full
    worst_usd = worst_cost_usd(price, most_tokens(request.messages, request.schema), max_tokens, tier)
    return _Line(question.request_key, shard, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE), worst_usd)


def _fits(filling: _Filling, line: _Line, left_usd: float, limits: Limits) -> bool:
    return (
        len(filling.keys) < limits.request_count
        and filling.byte_count + len(line.text) <= limits.byte_count
        and filling.worst_usd + line.worst_usd <= left_usd
    )


def _write_line(file: BinaryIO, filling: _Filling, line: _Line) -> None:
    file.write(line.text)
    filling.hashed.update(line.text)
    filling.keys.append(line.key)
    filling.byte_count += len(line.text)
    filling.worst_usd += line.worst_usd
    filling.largest_usd = max(filling.largest_usd, line.worst_usd)
    filling.shards = [*filling.shards[:1], line.shard]


@dataclass(slots=True)
class Replies:
    """Places of a batch's replies in its files, by request key, and their total cost.

    failures: of other lines. broken_count: lines that name no request. billed_count: failures that may be billed.
    """

    places: dict[str, tuple[Path, int]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    broken_count: int = 0
    billed_count: int = 0
    cost_usd: float = 0.0

    def lost_count(self, executed_count: int) -> int:
        """Number of requests that may have been billed, and of which the files hold no reply.

        executed_count: requests that were executed; no line is about some of them if a file was cut short or is another
        batch's.
        """
        silent_count = executed_count - len(self.places.keys() | self.failures.keys())
        return max(self.broken_count, silent_count) + self.billed_count


def index_replies(paths: Iterable[Path], keys: set[str], price: Price | None, largest_usd: float) -> Replies:
    """Find the HTTP 200s among the lines of a batch's files, the first of each key.

    Lines with other keys are ignored. A reply without usage costs as much as the largest request.
    """
    replies = Replies()
    for path in paths:
        for offset, text in _lines_at(path):
            try:
                line = orjson.loads(text)
                key = line["custom_id"]
            except (orjson.JSONDecodeError, LookupError, TypeError):
                replies.broken_count += 1
                continue
            if not isinstance(key, str) or key not in keys or key in replies.places:
                continue
            reply = read_reply_line(line)
            if reply is None:
                replies.failures[key] = _failure_words(line)
                replies.billed_count += _is_maybe_billed(line)
                continue
            replies.places[key] = path, offset
            paid_usd = None if reply.usage is None else cost_usd(price, reply.usage, tier=BATCH_TIER)
            replies.cost_usd += largest_usd if paid_usd is None else paid_usd
    return replies


def read_reply_at(path: Path, offset: int) -> Reply | None:
    """Reply in the line that starts at an offset."""
    with path.open("rb") as file:
        file.seek(offset)
        return read_reply_line(orjson.loads(file.readline()))


def read_reply_line(line: dict[str, Any]) -> Reply | None:
    """Reply of a line, always at the batch tier; None if it is no HTTP 200 with a completion, or nested too deeply.

    Anthropic's lines have a `result`, and a message where it succeeded.
    """
    if isinstance(result := line.get("result"), dict):
        return _read_body(result.get("message"), "anthropic") if result.get("type") == "succeeded" else None
    response = line.get("response")
    if not isinstance(response, dict) or response.get("status_code") != 200 or line.get("error"):
        return None
    return _read_body(response.get("body"), "openai")


def _read_body(body: object, form: Form) -> Reply | None:
    try:
        content = orjson.dumps(body)
    except orjson.JSONEncodeError:  # it reads 1,024 levels and writes 254
        return None
    reply = ENDPOINTS[form].read(REQUEST_URL, content, 0.0)
    return None if reply.error is not None else replace(reply, service_tier=BATCH_TIER)


def _failure_words(line: dict[str, Any]) -> str:
    """Reason that a line without a reply gives."""
    response, result = line.get("response"), line.get("result")
    status = response.get("status_code") if isinstance(response, dict) else None
    body = response.get("body") if isinstance(response, dict) else None
    cause = result.get("error") if isinstance(result, dict) else None
    errors = [part.get("error") for part in (line, body, cause) if isinstance(part, dict)]
    messages = [error.get("message") for error in errors if isinstance(error, dict)]
    first_message = next((message for message in messages if message and isinstance(message, str)), "")
    reason = (
        f"HTTP {status} {first_message}".strip()
        if isinstance(status, int)
        else first_message or _kind(result) or "no reply"
    )
    return clean_text(reason, MOST_WORDS)


def _kind(result: object) -> str:
    """Kind of a result without a message: errored, canceled or expired, none of which is billed."""
    kind = result.get("type") if isinstance(result, dict) else None
    return kind if isinstance(kind, str) else ""


def _is_maybe_billed(line: dict[str, Any]) -> bool:
    """Whether a line without a reply may be billed: never if the request was not executed."""
    response = line.get("response")
    status = response.get("status_code") if isinstance(response, dict) else None
    if not isinstance(status, int):
        return False
    body = response.get("body") if isinstance(response, dict) else None
    errors = [part.get("error") for part in (line, body) if isinstance(part, dict)]
    codes = [error.get(name) for error in errors if isinstance(error, dict) for name in ("code", "type")]
    return may_be_billed(status, *codes)


def _lines_at(path: Path) -> Iterator[tuple[int, bytes]]:
    """Non-empty lines, each with its offset. A line that is too long is cut, and does not parse."""
    offset = 0
    with path.open("rb") as file:
        while text := file.readline(MOST_LINE_BYTES):
            if text.strip():
                yield offset, text
            while text and not text.endswith(b"\n"):
                offset += len(text)
                text = file.readline(MOST_LINE_BYTES)
            offset += len(text)
