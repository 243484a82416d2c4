"""Anthropic's Message Batches of the loopback judge: `script`, `faults` and `on_call` as of `LoopbackBatches`."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from tests.support.loopback_batches import LoopbackBatches


class LoopbackMessageBatches(LoopbackBatches):
    """The batches of a server. Every second request is errored (partial), expired, or canceled by a cancel."""

    def mount(self, app: web.Application) -> None:
        app.router.add_route("*", "/v1/messages/batches", self._guard(self._batches))
        app.router.add_route("*", "/v1/messages/batches/{batch}", self._guard(self._batch))
        app.router.add_route("POST", "/v1/messages/batches/{batch}/cancel", self._guard(self._cancel))
        app.router.add_route("GET", "/v1/messages/batches/{batch}/results", self._guard(self._results))

    async def _batches(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(self._page(request.query.get("after_id"), request))
        requests = json.loads(await request.read())["requests"]
        assert request.content_length is not None
        assert all({*each} == {"custom_id", "params"} for each in requests)
        batch = {
            "id": f"msgbatch_{uuid.uuid4().hex}",
            "type": "message_batch",
            "processing_status": "in_progress",
            "status": "in_progress",
            "request_counts": {"processing": len(requests)},
            "created_at": datetime.now(UTC).isoformat(),
            "ended_at": None,
            "results_url": None,
        }
        self.batches[batch["id"]] = batch
        self.files[batch["id"]] = json.dumps(requests).encode()
        self.lines += requests
        return web.json_response(batch)

    async def _batch(self, request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            batch_id = request.match_info["batch"]
            self.batches.pop(batch_id, None)
            self.files.pop(batch_id, None)
            return web.json_response({"id": batch_id, "type": "message_batch_deleted"})
        return await super()._batch(request)

    async def _cancel(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches[request.match_info["batch"]]
        batch.update(status="cancelling", processing_status="canceling")
        return web.json_response(batch)

    def _progress(self, batch: dict[str, Any], request: web.Request) -> dict[str, Any]:
        is_cancelled = batch["status"] == "cancelling"
        if batch["status"] == "ended" or ("endless" in self.script and not is_cancelled):
            return batch
        asked = json.loads(self.files[batch["id"]])
        is_halved = is_cancelled or not {"partial", "expired"}.isdisjoint(self.script)
        done, left = (asked[::2], asked[1::2]) if is_halved else (asked, [])
        undone = "canceled" if is_cancelled else "expired" if "expired" in self.script else "errored"
        results = [self._succeeded(each, request) for each in done] + [_undone(each, undone) for each in left]
        self.files[batch["id"]] = "\n".join(reversed(results)).encode()  # results come in any order
        ended_at = datetime.fromisoformat(batch["created_at"]) + timedelta(seconds=2)
        batch.update(
            status="ended",
            processing_status="ended",
            ended_at=ended_at.isoformat(),
            request_counts={"processing": 0, "succeeded": len(done), undone: len(left)},
            results_url="http://198.51.100.7/results",  # followed by nobody: the key stays here
        )
        return batch

    def _succeeded(self, each: dict[str, Any], request: web.Request) -> str:
        self.answered[each["custom_id"]] += 1
        message = self._answer(each["params"], request)
        return json.dumps({"custom_id": each["custom_id"], "result": {"type": "succeeded", "message": message}})

    async def _results(self, request: web.Request) -> web.StreamResponse:
        content = self.files.get(request.match_info["batch"])
        return web.Response(body=content) if content is not None else web.json_response({"type": "error"}, status=404)


def _undone(each: dict[str, Any], kind: str) -> str:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: too many"}}
    result = {"type": kind} | ({"error": error} if kind == "errored" else {})
    return json.dumps({"custom_id": each["custom_id"], "result": result})
