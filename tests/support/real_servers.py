"""Real servers that `make test-models` installs, as processes: llama.cpp's with a small model, the LiteLLM proxy."""

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("GRADEBOOK_MODELS", Path(__file__).parents[2] / ".models"))
SERVER, WEIGHTS, PROXY = FOLDER / "llama-server", FOLDER / "gemma.gguf", FOLDER / "proxy" / "bin" / "litellm"
START_S = 180.0


@dataclass(frozen=True)
class RealServer:
    """Server on this machine."""

    base_url: str


def skip_without(*needed: Path) -> None:
    """Skip a module unless `make test-models` has installed what it needs."""
    if missing := [path.name for path in needed if not path.exists()]:
        pytest.skip(f"no {', '.join(missing)} in {FOLDER}: `make test-models` makes it", allow_module_level=True)


@contextmanager
def served_llama(log: Path, slot_count: int = 2, context_tokens: int = 4096) -> Iterator[RealServer]:
    """Serve the model. context_tokens: of all slots together. One thread, as two wait for each other on busy cores."""
    port = _free_port()
    sizes = ["--parallel", str(slot_count), "--ctx-size", str(context_tokens), "--threads", "1"]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    command = [str(SERVER), "--model", str(WEIGHTS), *sizes, *address, "--slots"]
    with _process(command, log, f"http://127.0.0.1:{port}/health"):
        yield RealServer(f"http://127.0.0.1:{port}/v1")


@contextmanager
def served_proxy(log: Path, config: Path) -> Iterator[RealServer]:
    """Run the LiteLLM proxy."""
    port = _free_port()
    command = [str(PROXY), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with _process(command, log, f"http://127.0.0.1:{port}/health/liveliness"):
        yield RealServer(f"http://127.0.0.1:{port}/v1")


@contextmanager
def _process(command: Sequence[str], log: Path, health_url: str) -> Iterator[None]:
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}  # no network
    with log.open("ab") as said, subprocess.Popen(command, stdout=said, stderr=said, env=environ) as process:
        try:
            _wait_until_healthy(process, health_url, log)
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


def _wait_until_healthy(process: "subprocess.Popen[bytes]", health_url: str, log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(health_url, timeout=5) as response:
            if response.status == 200:
                return
        time.sleep(0.2)
    raise TimeoutError(f"{health_url} is not healthy: {log.read_text(errors='replace')[-2_000:]}")


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])
