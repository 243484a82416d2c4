"""A Dask cluster of processes on loopback: a scheduler, and workers that come and are killed as a test wants."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]


class DaskCluster:
    """A scheduler at work; all ends with the block. folder: takes what its processes write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", self._file)

    @property
    def runner(self) -> str:
        """The words of --runner."""
        import json

        for _ in range(600):
            if self._file.exists() and (text := self._file.read_text(encoding="utf-8")):
                return f"dask:{json.loads(text)['address']}"
            time.sleep(0.05)
        raise TimeoutError(f"{self._file}: found no scheduler's address")

    def add_worker(self) -> "subprocess.Popen[bytes]":
        """Start a worker; it joins when it is up."""
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", self._folder)
        return self._start("dask_worker", self.runner.removeprefix("dask:"), *words)

    def kill_scheduler(self) -> None:
        """Kill the scheduler; its workers end by themselves."""
        self._processes[0].kill()

    def freeze_scheduler(self) -> None:
        """Let the scheduler stand still: its connections stay open, and it answers nothing."""
        self._processes[0].send_signal(signal.SIGSTOP)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def _start(self, module: str, *words: str | Path) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{module}-{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--host", "127.0.0.1", *map(str, words)],
                cwd=self._folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process


def _environment() -> Mapping[str, str]:
    """As on a machine that knows gradebook and nothing of the run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "GRADEBOOK_"))}
    return kept | {"PYTHONPATH": str(ROOT)}
