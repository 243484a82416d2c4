"""Program of the process that checks great-expectations suites and draws charts.

    python -m gradebook.tasks.stages.suite_server STATE_FILE IDLE_S

It imports as little as it can: no DuckDB, and nothing of great-expectations' other engines.
"""

import gc
import json
import os
import socketserver
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.tasks.stages.expectations import check_suite, import_great_expectations
from gradebook.tasks.system.kept_process import LEAST_IDLE_S, claim_state, other_state, write_state
from gradebook.tasks.system.lazy_imports import deferred_imports, refuse_imports
from gradebook.tasks.system.listeners import has_room, read_line

AUTH = "GRADEBOOK_SUITES_AUTH"
MOST_CONTENT_BYTES = 2**30  # of a table
EMPTY_CHART = '{"data": {"values": []}, "mark": "point"}'
LOOK_S = 0.5
# great-expectations does without them: they are for tables elsewhere.
OTHER_ENGINES = ("sqlalchemy", "pyodbc", "pyspark", "snowflake", "trino", "boto3", "botocore", "azure", "google")
UNUSED = ("jsonschema", "mistune")  # of great-expectations


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    used_at = time.monotonic()
    busy_count = 0

    def verify_request(self, _request: Any, _client_address: Any) -> bool:
        return has_room()


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Answer a table with the outcomes of its suite, or a chart's specification with its drawing.

        Whoever does not know the password gets nothing.
        """
        header = read_line(self.connection, self.rfile, os.environ[AUTH])
        if header is None or not 0 <= int(header["byte_count"]) <= MOST_CONTENT_BYTES:
            return
        self.server.busy_count += 1
        try:
            content = self.rfile.read(header["byte_count"])
            if "chart" in header:
                found: dict[str, Any] = {"svg": _drawn(content.decode())}
            else:
                with pa.ipc.open_stream(content) as stream:
                    found = {"outcomes": check_suite(header["suite"], stream.read_all())}
            self.wfile.write(json.dumps(found | {"cpu_s": time.thread_time()}).encode())
        finally:
            self.server.used_at = time.monotonic()
            self.server.busy_count -= 1


def _drawn(specification: str) -> str:
    from gradebook.tasks.reporting.drawing.charts import draw_svg

    return draw_svg(specification)


def main() -> None:
    """Check suites until none was asked for during IDLE_S."""
    state_path, idle_s = Path(sys.argv[1]), max(float(sys.argv[2]), LEAST_IDLE_S)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output must not be read as the answer
    os.umask(0o077)
    state = claim_state(state_path)
    if state is None:
        print(other_state(state_path), file=answers, flush=True)
        return
    with _Server(("127.0.0.1", 0), _Handler) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        print(write_state(state, address, os.environ[AUTH], idle_s), file=answers, flush=True)
        answers.close()
        refuse_imports(*OTHER_ENGINES)
        with deferred_imports(*UNUSED):
            import_great_expectations()
        gc.freeze()
        threading.Thread(target=server.serve_forever, args=[LOOK_S], daemon=True).start()
        _drawn(EMPTY_CHART)  # starts Vega; suites may be checked meanwhile
        server.used_at = time.monotonic()
        while server.busy_count or time.monotonic() - server.used_at < idle_s:
            time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
