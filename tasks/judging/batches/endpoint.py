"""Batch API of an OpenAI-compatible endpoint: files and batches, and its failures."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import orjson

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.files import REQUEST_URL
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.endpoint import refused_key
from gradebook.tasks.judging.transport.redaction import KeyMask
from gradebook.tasks.judging.transport.retry_policy import is_retried
from gradebook.tasks.system.files import replaced_file

if TYPE_CHECKING:
    import openai

COMPLETED = "completed"
ENDED = frozenset({COMPLETED, "failed", "expired", "cancelled"})
ENDING_TIMES = ("completed_at", "expired_at", "cancelled_at", "failed_at")
UPLOAD_TIMEOUT_S = 600.0
PAGE_SIZE = 100
INTENT_MARK = "gradebook_intent"  # metadata key that identifies a batch
RUN_MARK = "gradebook_run"

Returned = TypeVar("Returned")


class NoAnswer(Exception):
    """A request to the Batch API failed, perhaps temporarily."""


class _Refused(Exception):
    """The endpoint refused a request to the Batch API permanently."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


class _Raw(Protocol):
    """HTTP response as the client returns it, unread."""

    @property
    def content(self) -> bytes:
        """Body of the response."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """State of a batch at the endpoint. reason: of its failure; latency_ms: of the whole batch, 0 if unknown."""

    status: str
    done_count: int
    file_ids: tuple[str, ...]  # files of output and errors
    reason: str | None
    latency_ms: float

    @property
    def has_ended(self) -> bool:
        """Whether no more replies will come."""
        return self.status in ENDED


class BatchEndpoint:
    """Connection to a judge's own address, for one thread.

    Every request may raise `NoAnswer`, or `EndpointUnavailable` if a retry is useless.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        from openai import OpenAI

        from gradebook.tasks.judging.transport.http_client import BoundedFileClient

        key = read_keys(settings, os.environ)[0]
        self._settings = settings
        self._mask = KeyMask.of(settings, key)
        self._client = OpenAI(
            api_key=key,
            base_url=settings.base_url,
            max_retries=0,
            timeout=settings.timeout_s,
            http_client=BoundedFileClient(settings, key),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def upload(self, path: Path) -> str:
        """Upload a file of requests; returns its id."""
        with path.open("rb") as file:
            named = (path.name, file, "application/jsonl")
            return self._id_of(
                lambda: self._client.files.with_raw_response.create(
                    file=named, purpose="batch", timeout=UPLOAD_TIMEOUT_S
                )
            )

    def create(self, file_id: str, intent_id: str, run_id: str) -> str:
        """Create the batch of an uploaded file; returns its id."""
        return self._id_of(
            lambda: self._client.batches.with_raw_response.create(
                completion_window="24h",
                endpoint=REQUEST_URL,
                input_file_id=file_id,
                metadata={INTENT_MARK: intent_id, RUN_MARK: run_id},
            )
        )

    def find(self, intent_id: str, file_id: str) -> str | None:
        """Id of the batch created from an intent; None if none was created. file_id: of its requests."""
        import openai

        after: str | openai.Omit = openai.omit
        while True:
            listed = self._page(after)
            batches = [batch for batch in _list_of(listed.get("data")) if isinstance(batch.get("id"), str)]
            for batch in batches:
                marks = batch.get("metadata")
                is_marked = isinstance(marks, dict) and marks.get(INTENT_MARK) == intent_id
                if is_marked or batch.get("input_file_id") == file_id:  # not every endpoint stores metadata
                    return str(batch["id"])
            last = batches[-1]["id"] if batches else after
            if not listed.get("has_more") or last == after:
                return None
            after = last

    def _page(self, after: "str | openai.Omit") -> dict[str, Any]:
        try:
            return self._read(
                self._send(partial(self._client.batches.with_raw_response.list, after=after, limit=PAGE_SIZE))
            )
        except _Refused as refused:
            raise self._unavailable(refused) from None

    def has_file(self, file_id: str) -> bool:
        """Whether an uploaded file still exists."""
        return self._unless_missing(lambda: self._client.files.with_raw_response.retrieve(file_id)) is not None

    def retrieve(self, batch_id: str) -> BatchState | None:
        """State of a batch; None if the endpoint does not know it."""
        batch = self._unless_missing(lambda: self._client.batches.with_raw_response.retrieve(batch_id))
        return None if batch is None else _state(batch, self._mask.line)

    def cancel(self, batch_id: str) -> None:
        """Cancel a batch; does nothing if it has ended meanwhile."""
        try:
            self._send(lambda: self._client.batches.with_raw_response.cancel(batch_id))
        except _Refused:
            return

    def download(self, file_id: str, path: Path) -> bool:
        """Download a file, with the key removed if echoed. False if the file no longer exists."""

        def copy() -> bool:
            with (
                self._client.files.with_streaming_response.content(file_id) as response,
                replaced_file(path) as temporary,
                temporary.open("wb") as file,
            ):
                rest = b""
                for chunk in response.iter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
                    file.writelines(self._mask.content(line) + b"\n" for line in lines)
                file.write(self._mask.content(rest))
            return True

        try:
            return self._send(copy)
        except _Refused as refused:
            if refused.status == 404:
                return False
            raise self._unavailable(refused) from None

    def delete(self, file_id: str) -> None:
        """Delete a file at the endpoint; a refusal is ignored."""
        try:
            self._send(lambda: self._client.files.with_raw_response.delete(file_id))
        except _Refused:
            return

    def _read(self, raw: _Raw) -> dict[str, Any]:
        """JSON object of an answer, with the key removed if echoed."""
        try:
            answer = orjson.loads(self._mask.content(raw.content))
        except orjson.JSONDecodeError:
            raise NoAnswer("an answer that is no JSON") from None
        if not isinstance(answer, dict):
            raise NoAnswer("an answer that is no JSON object")
        return answer

    def _id_of(self, send: Callable[[], Any]) -> str:
        """Id of a created object. Raises `EndpointUnavailable` if the endpoint has no Batch API."""
        try:
            made = self._read(self._send(send))
        except _Refused as refused:
            raise EndpointUnavailable(
                f"{self._settings.base_url} took no batch, it answered {refused.reason}; expected an endpoint with a "
                "Batch API (/files and /batches), or another `mode` in the judge file"
            ) from None
        if not isinstance(made.get("id"), str):
            raise NoAnswer("an answer without an id")
        return str(made["id"])

    def _unless_missing(self, send: Callable[[], Any]) -> dict[str, Any] | None:
        try:
            return self._read(self._send(send))
        except _Refused as refused:
            if refused.status == 404:
                return None
            raise self._unavailable(refused) from None

    def _unavailable(self, refused: _Refused) -> EndpointUnavailable:
        return EndpointUnavailable(f"{self._settings.base_url}: asked for a batch, it answered {refused.reason}")

    def _send(self, send: Callable[[], Returned]) -> Returned:
        import httpx2
        import openai

        try:
            return send()
        except openai.APIStatusError as error:
            raise self._fault(error) from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            raise NoAnswer("no answer" if isinstance(error, openai.APITimeoutError) else "no connection") from None

    def _fault(self, error: "openai.APIStatusError") -> Exception:
        status, answered = error.status_code, self._mask.status_text(error.status_code, error.body)
        if status in (401, 403):
            return refused_key(self._settings, answered)
        if "insufficient_quota" in (error.code, error.type):
            return EndpointUnavailable(f"{self._settings.base_url} answered {answered}: the quota is used up")
        return NoAnswer(answered) if is_retried(status) else _Refused(status, answered)


def _list_of(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _state(batch: dict[str, Any], redact: Callable[[str], str]) -> BatchState:
    counts = batch.get("request_counts")
    done = [counts.get(name) for name in ("completed", "failed")] if isinstance(counts, dict) else []
    files = (batch.get("output_file_id"), batch.get("error_file_id"))
    errors = batch.get("errors")
    reasons = _list_of(errors.get("data")) if isinstance(errors, dict) else []
    began = batch.get("created_at")
    ended = next((batch[name] for name in ENDING_TIMES if isinstance(batch.get(name), int)), None)
    return BatchState(
        str(batch.get("status")),
        sum(count for count in done if isinstance(count, int)),
        tuple(file for file in files if isinstance(file, str) and file),
        redact(str(reasons[0].get("message"))) if reasons else None,
        max(0.0, (ended - began) * 1000.0) if isinstance(began, int) and ended is not None else 0.0,
    )
