"""The Batch API of the loopback judge: files and batches, answered when they are looked at.

`script` holds words for all batches: partial (every second request fails), expired, failed (by validation), shuffled,
twice (each line), stranger (a line of nobody's), torn (a line that can't be read), endless (until it is cancelled),
stuck (even then), no_usage, false_usage (0 tokens), echo (of the key). `faults` holds one word a request, then none: a
status, drop, or lost (done and unanswered). "DELETE 500" waits for the first request of that method.
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from aiohttp import web

Answer = Callable[[dict[str, Any], web.Request], dict[str, Any]]


class LoopbackBatches:
    """The files and batches of a server, and what it saw."""

    def __init__(self, is_let_in: Callable[[web.Request], bool], answer: Answer) -> None:
        self._is_let_in = is_let_in
        self._answer = answer
        self.script: tuple[str, ...] = ()
        self.faults: list[str] = []
        self.is_there = True
        self.page_size = 100
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.answered: Counter[str] = Counter()  # requests that were billed, by custom_id
        self.lines: list[dict[str, Any]] = []  # of all batches
        self.calls: Counter[str] = Counter()  # by method and kind: POST files
        # Told of each call before and after it is handled; a call is not handled where it says so.
        self.on_call: Callable[[int, str], bool] = lambda number, moment: False

    def _next_fault(self, method: str) -> str:
        if not self.faults or self.faults[0].rpartition(" ")[0] not in ("", method):
            return ""
        return self.faults.pop(0).rpartition(" ")[2]

    def mount(self, app: web.Application) -> None:
        app.router.add_route("*", "/v1/files", self._guard(self._files))
        app.router.add_route("*", "/v1/files/{file}", self._guard(self._file))
        app.router.add_route("*", "/v1/files/{file}/content", self._guard(self._content))
        app.router.add_route("*", "/v1/batches", self._guard(self._batches))
        app.router.add_route("*", "/v1/batches/{batch}", self._guard(self._batch))
        app.router.add_route("*", "/v1/batches/{batch}/cancel", self._guard(self._cancel))

    def _guard(self, handle: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        async def guarded(request: web.Request) -> web.StreamResponse:
            self.calls[f"{request.method} {request.path.split('/')[2]}"] += 1
            number = self.calls.total()
            if self.on_call(number, "before"):
                return web.Response()
            fault = self._next_fault(request.method)
            if not self._is_let_in(request):
                return _refusal(401, "bad key")
            if not self.is_there:
                return _refusal(404, "no such thing")
            if fault.isdigit():
                return _refusal(int(fault), f"scripted {request.headers.get('Authorization')}")
            answer: web.StreamResponse = web.Response() if fault == "drop" else await handle(request)
            self.on_call(number, "after")
            if fault in ("drop", "lost") and request.transport is not None:
                request.transport.close()
            return answer

        return guarded

    # -------- files
    async def _files(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        upload = form["file"]
        assert isinstance(upload, web.FileField) and form["purpose"] == "batch"
        return web.json_response({"id": self._keep(upload.file.read()), "object": "file"})

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file_id = request.match_info["file"]
        if file_id not in self.files:
            return _refusal(404, "no such file")
        if request.method == "DELETE":
            del self.files[file_id]
        return web.json_response({"id": file_id, "object": "file"})

    async def _content(self, request: web.Request) -> web.StreamResponse:
        content = self.files.get(request.match_info["file"])
        return _refusal(404, "no such file") if content is None else web.Response(body=content)

    def _keep(self, content: bytes) -> str:
        file_id = f"file-{uuid.uuid4().hex}"
        self.files[file_id] = content
        return file_id

    # -------- batches
    async def _batches(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(self._page(request.query.get("after"), request))
        asked = await request.json()
        if asked["input_file_id"] not in self.files:
            return _refusal(400, "no such file")
        batch = {
            "id": f"batch_{uuid.uuid4().hex}",
            "object": "batch",
            "status": "in_progress",
            "created_at": int(time.time()),
            "input_file_id": asked["input_file_id"],
            "metadata": asked.get("metadata"),
            "output_file_id": None,
            "error_file_id": None,
            "errors": None,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
        }
        self.batches[batch["id"]] = batch
        self.lines += map(json.loads, self.files[asked["input_file_id"]].splitlines())
        return web.json_response(batch)

    def _page(self, after: str | None, request: web.Request) -> dict[str, Any]:
        newest_first = [self._progress(batch, request) for batch in reversed(self.batches.values())]
        ids = [batch["id"] for batch in newest_first]
        begin = ids.index(after) + 1 if after else 0
        end = begin + self.page_size
        return {"object": "list", "data": newest_first[begin:end], "has_more": end < len(ids)}

    async def _batch(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["batch"])
        return _refusal(404, "no such batch") if batch is None else web.json_response(self._progress(batch, request))

    async def _cancel(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches[request.match_info["batch"]]
        if batch["status"] != "in_progress":
            return _refusal(409 if batch["status"] == "cancelling" else 400, "it has ended")
        batch["status"] = "cancelling"
        return web.json_response(batch)

    def _progress(self, batch: dict[str, Any], request: web.Request) -> dict[str, Any]:
        """A batch as it is now; whoever looks at it brings it to its end, unless the script keeps it from that."""
        is_cancelled = batch["status"] == "cancelling"
        is_held = "stuck" in self.script or ("endless" in self.script and not is_cancelled)
        if is_held or batch["status"] not in ("in_progress", "cancelling"):
            return batch
        if "failed" in self.script:
            errors = {"object": "list", "data": [{"code": "invalid", "message": "line 1 is no request", "line": 1}]}
            return self._end(batch, "failed", errors=errors)
        asked = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        is_halved = is_cancelled or not {"partial", "expired"}.isdisjoint(self.script)
        done = asked[::2] if is_halved else asked
        left = asked[1::2] if is_halved else []
        output = [self._done(line, request) for line in done]
        errors = [self._undone(line, is_cancelled) for line in left]
        status = "cancelled" if is_cancelled else "expired" if "expired" in self.script else "completed"
        batch["request_counts"] = {"total": len(asked), "completed": len(done), "failed": len(left)}
        return self._end(
            batch,
            status,
            output_file_id=self._keep("\n".join(self._disturbed(output)).encode()) if output else None,
            error_file_id=self._keep("\n".join(errors).encode()) if errors else None,
        )

    def _end(self, batch: dict[str, Any], status: str, **changes: Any) -> dict[str, Any]:
        batch.update(changes, status=status)
        batch[f"{status}_at"] = batch["created_at"] + 2
        return batch

    def _done(self, line: dict[str, Any], request: web.Request) -> str:
        self.answered[line["custom_id"]] += 1
        body = self._answer(line["body"], request)
        if "no_usage" in self.script:
            del body["usage"]
        if "false_usage" in self.script:
            body["usage"] = {"prompt_tokens": 0, "completion_tokens": 0}
        if "echo" in self.script:
            body["choices"][0]["message"]["content"] = str(dict(request.headers))
        response = {"status_code": 200, "request_id": "r", "body": body}
        return json.dumps({"id": "b", "custom_id": line["custom_id"], "response": response, "error": None})

    def _undone(self, line: dict[str, Any], is_cancelled: bool) -> str:
        """An expired or cancelled request has no response, a failed one has the error's."""
        if "expired" in self.script or is_cancelled:
            code = "batch_cancelled" if is_cancelled else "batch_expired"
            error = {"code": code, "message": "this request was not executed in time"}
            return json.dumps({"id": "b", "custom_id": line["custom_id"], "response": None, "error": error})
        response = {"status_code": 500, "request_id": "r", "body": {"error": {"message": "server error"}}}
        return json.dumps({"id": "b", "custom_id": line["custom_id"], "response": response, "error": None})

    def _disturbed(self, output: list[str]) -> list[str]:
        if "shuffled" in self.script:
            output.reverse()
        if "twice" in self.script:
            output = [line for line in output for _ in range(2)]
        if "stranger" in self.script:
            output = [json.dumps({**json.loads(output[0]), "custom_id": "f" * 32}), *output]
        if "torn" in self.script:
            output = [output[0][:40], *output[1:]]
        if "cut" in self.script:
            output = [*output[: len(output) // 2], output[-1][:40]]
        if "foreign" in self.script:
            output = [
                json.dumps(json.loads(line) | {"custom_id": f"{number:032x}"}) for number, line in enumerate(output)
            ]
        return output


def _refusal(status: int, message: str) -> web.StreamResponse:
    return web.json_response({"error": {"message": message, "type": "scripted", "code": None}}, status=status)
