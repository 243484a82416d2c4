#!/usr/bin/env bash
# A day on a real Prefect server with a process worker, on loopback, in a home of its own: the deployments of prefect.yaml, a
# checkpoint by its event, a nightly run, and a worker killed in the middle of a judged run. PYTHON names the interpreter.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
python="${PYTHON:-$root/.venv/bin/python}"
folder="$(mktemp -d)"
trap 'kill "${server:-}" 2>/dev/null || true; wait "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT

port="$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
export PREFECT_HOME="$folder/home" PREFECT_API_URL="http://127.0.0.1:$port/api"
export PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=1 NO_COLOR=1 OPENAI_API_KEY=none
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
unset GRADEBOOK_LAKE
mkdir -p "$folder/home" "$folder/work"

"$python" -m prefect server start --host 127.0.0.1 --port "$port" >"$folder/server.log" 2>&1 &
server=$!
if ! (cd "$folder/work" && "$python" "$root/tests/support/e2e_server.py" 2>&1 | tee "$folder/said"); then
    tail -n 40 "$folder/server.log" "$folder"/work/*.log >&2
    tail -n 5 "$folder/said" >&2
    exit 1
fi
