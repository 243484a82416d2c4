"""Batch APIs of endpoints: requests sent at once and their results, and what fails between them.

OpenAI's API takes a file of requests, Anthropic's the requests themselves. Sources, read on 2026-11-29:
https://platform.openai.com/docs/api-reference/batch, https://platform.claude.com/docs/en/api/creating-message-batches.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import orjson

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.files import REQUEST_URL
from gradebook.tasks.judging.batches.state import Intent
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.connection import refused_key
from gradebook.tasks.judging.transport.endpoint import endpoint_of
from gradebook.tasks.judging.transport.redaction import KeyMask
from gradebook.tasks.judging.transport.retry_policy import is_retried
from gradebook.tasks.system.files import replaced_file

if TYPE_CHECKING:
    import httpx2

COMPLETED = "completed"
ENDED = frozenset({COMPLETED, "failed", "expired", "cancelled"})
ENDING_TIMES = ("completed_at", "expired_at", "cancelled_at", "failed_at")
UPLOAD_TIMEOUT_S = 600.0
PAGE_SIZE = 100
INTENT_MARK = "gradebook_intent"  # metadata key that identifies a batch
RUN_MARK = "gradebook_run"
MESSAGE_BATCHES = "/messages/batches"
CLOCK_MARGIN = timedelta(minutes=2)  # by which an endpoint's clock may differ from ours


Returned = TypeVar("Returned")


class NoAnswer(Exception):
    """A request to the Batch API failed, perhaps temporarily."""


class _Refused(Exception):
    """The endpoint refused a request to the Batch API permanently."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


class _Stream(Protocol):
    """Response of either client, unread."""

    def iter_bytes(self) -> Iterator[bytes]: ...


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


class BatchEndpoint(ABC):
    """Connection to a judge's own address, for one thread. folder: of the run's request files.

    Every request may raise `NoAnswer`, or `EndpointUnavailable` if a retry is useless.
    """

    needs: ClassVar[str]  # paths of the API

    def __init__(self, settings: JudgeSettings, folder: Path) -> None:
        from gradebook.tasks.judging.transport.http_client import BoundedFileClient

        self._key = read_keys(settings, os.environ)[0]
        self._settings, self._folder = settings, folder
        self._mask = KeyMask.of(settings, self._key)
        self._http = BoundedFileClient(settings, self._key, timeout=settings.timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @abstractmethod
    def upload(self, path: Path) -> str:
        """Upload a file of requests; returns its id."""

    @abstractmethod
    def create(self, file_id: str, intent_id: str, run_id: str) -> str:
        """Create the batch of an uploaded file; returns its id."""

    @abstractmethod
    def find(self, intent: Intent, other_ids: Container[str]) -> str | None:
        """Id of the batch created from an intent; None if none was created. other_ids: batches of other intents."""

    @abstractmethod
    def has_file(self, file_id: str) -> bool:
        """Whether an uploaded file still exists."""

    @abstractmethod
    def retrieve(self, batch_id: str) -> BatchState | None:
        """State of a batch; None if the endpoint does not know it."""

    @abstractmethod
    def cancel(self, batch_id: str) -> None:
        """Cancel a batch; does nothing if it has ended meanwhile."""

    @abstractmethod
    def download(self, file_id: str, path: Path) -> bool:
        """Download a file, with the key removed if echoed. False if the file no longer exists."""

    @abstractmethod
    def delete(self, file_id: str) -> None:
        """Delete a file at the endpoint; a refusal is ignored."""

    def _created(self, send: Callable[[], bytes]) -> str:
        """Id of a created object. Raises `EndpointUnavailable` if the endpoint has no Batch API."""
        try:
            created = self._read(send)
        except _Refused as refused:
            raise EndpointUnavailable(
                f"{self._settings.base_url} took no batch, it answered {refused.reason}; expected an endpoint with a "
                f"Batch API ({self.needs}), or another `mode` in the judge file"
            ) from None
        if not isinstance(created.get("id"), str):
            raise NoAnswer("an answer without an id")
        return str(created["id"])

    def _listed(self, page: Callable[[str | None], bytes]) -> Iterator[dict[str, Any]]:
        """All batches, newest first. page: lists those after the batch of an id."""
        after = None
        while True:
            try:
                listed = self._read(partial(page, after))
            except _Refused as refused:
                raise self._unavailable(refused) from None
            batches = [batch for batch in _list_of(listed.get("data")) if isinstance(batch.get("id"), str)]
            yield from batches
            if not (listed.get("has_more") and batches) or batches[-1]["id"] == after:
                return
            after = batches[-1]["id"]

    def _unless_missing(self, send: Callable[[], bytes]) -> dict[str, Any] | None:
        try:
            return self._read(send)
        except _Refused as refused:
            if refused.status == 404:
                return None
            raise self._unavailable(refused) from None

    def _try(self, send: Callable[[], object]) -> None:
        """Send a request; a refusal is ignored."""
        with suppress(_Refused):
            self._send(send)

    def _copy(self, stream: Callable[[], "AbstractContextManager[_Stream]"], path: Path) -> bool:
        """Write a streamed file. False if it no longer exists."""

        def copy() -> None:
            with stream() as response, replaced_file(path) as temporary, temporary.open("wb") as file:
                rest = b""
                for chunk in response.iter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
                    file.writelines(self._mask.content(line) + b"\n" for line in lines)
                file.write(self._mask.content(rest))

        try:
            self._send(copy)
        except _Refused as refused:
            if refused.status == 404:
                return False
            raise self._unavailable(refused) from None
        return True

    def _read(self, send: Callable[[], bytes]) -> dict[str, Any]:
        """JSON object of an answer, with the key removed if echoed."""
        try:
            answer = orjson.loads(self._mask.content(self._send(send)))
        except orjson.JSONDecodeError:
            raise NoAnswer("an answer that is no JSON") from None
        if not isinstance(answer, dict):
            raise NoAnswer("an answer that is no JSON object")
        return answer

    def _unavailable(self, refused: _Refused) -> EndpointUnavailable:
        return EndpointUnavailable(f"{self._settings.base_url}: asked for a batch, it answered {refused.reason}")

    def _send(self, send: Callable[[], Returned]) -> Returned:
        import httpx2

        try:
            return send()
        except httpx2.TimeoutException:
            raise NoAnswer("no answer") from None
        except httpx2.HTTPError:
            raise NoAnswer("no connection") from None

    def _fault(self, response: "httpx2.Response") -> Exception:
        status = response.status_code
        error = endpoint_of(self._settings).read_error(response.content)
        answered = self._mask.status_text(status, error.body)
        if status in (401, 403):
            return refused_key(self._settings, answered)
        if "insufficient_quota" in (error.code, error.type):
            return EndpointUnavailable(f"{self._settings.base_url} answered {answered}: the quota is used up")
        return NoAnswer(answered) if is_retried(status) else _Refused(status, answered)


class FileBatches(BatchEndpoint):
    """Connection in OpenAI's form, by its own client: a batch is made of an uploaded file."""

    needs = "/files and /batches"

    def __init__(self, settings: JudgeSettings, folder: Path) -> None:
        from openai import OpenAI

        super().__init__(settings, folder)
        client = OpenAI(
            api_key=self._key,
            base_url=settings.base_url,
            max_retries=0,
            timeout=settings.timeout_s,
            http_client=self._http,
        )
        self._files, self._batches = client.files, client.batches

    def upload(self, path: Path) -> str:
        with path.open("rb") as file:
            upload_file = (path.name, file, "application/jsonl")
            send = self._files.with_raw_response.create
            return self._created(lambda: send(file=upload_file, purpose="batch", timeout=UPLOAD_TIMEOUT_S).content)

    def create(self, file_id: str, intent_id: str, run_id: str) -> str:
        marks = {INTENT_MARK: intent_id, RUN_MARK: run_id}
        send = self._batches.with_raw_response.create
        return self._created(
            lambda: send(completion_window="24h", endpoint=REQUEST_URL, input_file_id=file_id, metadata=marks).content
        )

    def find(self, intent: Intent, other_ids: Container[str]) -> str | None:
        import openai

        send = self._batches.with_raw_response.list
        for batch in self._listed(lambda after: send(after=after or openai.omit, limit=PAGE_SIZE).content):
            marks = batch.get("metadata")
            is_marked = isinstance(marks, dict) and marks.get(INTENT_MARK) == intent.intent_id
            if is_marked or batch.get("input_file_id") == intent.file_id:  # not every endpoint stores metadata
                return str(batch["id"])
        return None

    def has_file(self, file_id: str) -> bool:
        return self._unless_missing(lambda: self._files.with_raw_response.retrieve(file_id).content) is not None

    def retrieve(self, batch_id: str) -> BatchState | None:
        batch = self._unless_missing(lambda: self._batches.with_raw_response.retrieve(batch_id).content)
        return None if batch is None else self._state(batch)

    def _state(self, batch: dict[str, Any]) -> BatchState:
        counts = _counts(batch)
        files = (batch.get("output_file_id"), batch.get("error_file_id"))
        errors = batch.get("errors")
        reasons = _list_of(errors.get("data")) if isinstance(errors, dict) else []
        began = batch.get("created_at")
        ended = next((batch[name] for name in ENDING_TIMES if isinstance(batch.get(name), int)), None)
        return BatchState(
            str(batch.get("status")),
            counts.get("completed", 0) + counts.get("failed", 0),
            tuple(file for file in files if isinstance(file, str) and file),
            self._mask.line(str(reasons[0].get("message"))) if reasons else None,
            max(0.0, (ended - began) * 1000.0) if isinstance(began, int) and ended is not None else 0.0,
        )

    def cancel(self, batch_id: str) -> None:
        self._try(lambda: self._batches.with_raw_response.cancel(batch_id))

    def download(self, file_id: str, path: Path) -> bool:
        return self._copy(lambda: self._files.with_streaming_response.content(file_id), path)

    def delete(self, file_id: str) -> None:
        self._try(lambda: self._files.with_raw_response.delete(file_id))

    def _send(self, send: Callable[[], Returned]) -> Returned:
        import openai

        try:
            return super()._send(send)
        except openai.APIStatusError as error:
            raise self._fault(error.response) from None
        except openai.APIConnectionError as error:
            raise NoAnswer("no answer" if isinstance(error, openai.APITimeoutError) else "no connection") from None


class MessageBatches(BatchEndpoint):
    """Connection in Anthropic's form.

    A batch holds its requests, so nothing is uploaded: the id of a file is its name in the folder.
    """

    needs = MESSAGE_BATCHES

    def upload(self, path: Path) -> str:
        return path.name

    def create(self, file_id: str, intent_id: str, run_id: str) -> str:
        path = self._folder / file_id
        start, end = b'{"requests":[', b"]}"
        size = len(start) + path.stat().st_size - 1 + len(end)  # each line's end is a comma, but for the last

        def body() -> Iterator[bytes]:
            yield start
            with path.open("rb") as file:
                for number, line in enumerate(file):
                    yield (b"," if number else b"") + line.rstrip(b"\n")
            yield end

        headers = {"Content-Length": str(size), "Content-Type": "application/json"}
        sent: dict[str, Any] = {"content": body(), "headers": headers, "timeout": UPLOAD_TIMEOUT_S}
        return self._created(lambda: self._request("POST", **sent))

    def find(self, intent: Intent, other_ids: Container[str]) -> str | None:
        """Id of the first batch of as many requests as an intent that was created since; None if there is none.

        A batch has no metadata. Another user's batch would answer no question of this run: replies are identified by
        their keys, and questions without a reply are asked online.
        """
        first = None

        def page(after: str | None) -> bytes:
            return self._request("GET", params={"limit": PAGE_SIZE, **({"after_id": after} if after else {})})

        for batch in self._listed(page):
            created_at = _time(batch.get("created_at"))
            if created_at is None or created_at < intent.intended_at - CLOCK_MARGIN:
                break
            if batch["id"] not in other_ids and sum(_counts(batch).values()) == intent.request_count:
                first = str(batch["id"])
        return first

    def has_file(self, file_id: str) -> bool:
        return (self._folder / file_id).exists()

    def retrieve(self, batch_id: str) -> BatchState | None:
        batch = self._unless_missing(lambda: self._request("GET", f"/{batch_id}"))
        return None if batch is None else self._state(batch)

    def _state(self, batch: dict[str, Any]) -> BatchState:
        counts = _counts(batch)
        status = str(batch.get("processing_status"))
        if status == "ended":
            early = {"cancelled": counts.get("canceled"), "expired": counts.get("expired")}
            status = next((name for name, count in early.items() if count), COMPLETED)
        began, ended = _time(batch.get("created_at")), _time(batch.get("ended_at"))
        return BatchState(
            status,
            counts.get("succeeded", 0) + counts.get("errored", 0),
            (str(batch["id"]),) if isinstance(batch.get("id"), str) and status in ENDED else (),
            None,
            max(0.0, (ended - began).total_seconds() * 1000) if began and ended else 0.0,
        )

    def cancel(self, batch_id: str) -> None:
        self._try(lambda: self._request("POST", f"/{batch_id}/cancel"))

    def download(self, file_id: str, path: Path) -> bool:
        return self._copy(lambda: self._results(file_id), path)

    @contextmanager
    def _results(self, batch_id: str) -> Iterator["httpx2.Response"]:
        with self._http.stream("GET", f"{self._settings.base_url}{MESSAGE_BATCHES}/{batch_id}/results") as response:
            if not response.is_success:
                raise self._fault(response)
            yield response

    def delete(self, file_id: str) -> None:
        """Delete nothing: a batch found again may be another run's, and results end by themselves after 29 days."""

    def _request(self, method: str, path: str = "", **sent: Any) -> bytes:
        response = self._http.request(method, self._settings.base_url + MESSAGE_BATCHES + path, **sent)
        if not response.is_success:
            raise self._fault(response)
        return response.content


def open_batches(settings: JudgeSettings, folder: Path) -> BatchEndpoint:
    """Batch API of a judge's own address, by the form in which it is asked."""
    return (MessageBatches if settings.form == "anthropic" else FileBatches)(settings, folder)


def _list_of(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _counts(batch: dict[str, Any]) -> dict[str, int]:
    """Requests of a batch by their state."""
    counts = batch.get("request_counts")
    return {name: count for name, count in counts.items() if isinstance(count, int)} if isinstance(counts, dict) else {}


def _time(text: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(text[:40]) if isinstance(text, str) else None
    except ValueError:
        return None
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)
