"""`gradebook` as a process of its own, forked from one that has imported all: imports take half of a command."""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "gradebook.flows.cli",
    "gradebook.flows.commands.evaluate",
    "gradebook.flows.commands.rate",
    "gradebook.flows.evaluate_here",
    "gradebook.tasks.judging.transport.http_client",
    "gradebook.tasks.reporting.page",
    "genai_prices.data",
    "openai",
    "tests.support.forked",
)
_NUMBERS = count()


class Forked:
    """A command at work in a folder, with the environment of its start and more; what it wrote is in files there."""

    def __init__(self, words: Sequence[str | Path], folder: Path, **more: str) -> None:
        number = next(_NUMBERS)  # not a count of the files there: a process just started has written none yet
        self._written = [folder / f"forked-{number}.{stream}" for stream in ("out", "err")]
        given = (list(map(str, words)), folder, self._written, os.environ | more)
        self._process = _context().Process(target=_run, args=given)
        self._process.start()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    @property
    def out(self) -> str:
        """Its stdout so far."""
        path = self._written[0]
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def kill(self) -> None:
        """Kill it where it stands, if it has not ended yet."""
        self._process.kill()
        self._process.join()

    def wait(self, timeout_s: float = 120) -> tuple[int | None, str, str]:
        """Its exit code, None where it still runs after that time, and what it wrote to stdout and stderr."""
        self._process.join(timeout_s)
        out, err = (path.read_text(encoding="utf-8") for path in self._written)
        return self._process.exitcode, out, err


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
    return context


def _run(words: list[str], folder: Path, written: list[Path], environment: Mapping[str, str]) -> None:
    for stream, path in zip((1, 2), written, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["gradebook", *words]
    from gradebook.flows.cli import main

    main()
