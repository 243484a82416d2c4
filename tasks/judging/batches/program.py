"""Program of the operator that reads a file of requests and writes a file of replies, as `vllm run-batch` does."""

import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.settings.judge import program_words
from gradebook.tasks.system.processes import end_process, words_ended_with_parent

POLL_S = 0.2
REPLY_BYTES = 2**20  # that a program may write for each request, on average
LEAST_BYTES = 2**24
LOG_BYTES = 2**26


def run_program(command: str, requests: Path, replies: Path, request_count: int, is_stopped: threading.Event) -> None:
    """Run a `batch_command` on a file of requests until it ends; its output goes to a log beside the replies.

    Raises `EndpointUnavailable` if it can't be started, ends with another exit code than 0, or writes more than
    `request_count` replies may take; what it wrote until then stays. Ends it, without an error, once is_stopped is set.
    """
    words = program_words(command, str(requests), str(replies))
    log = replies.with_suffix(".log")
    if shutil.which(words[0]) is None:
        raise EndpointUnavailable(f"batch_command: found no program {words[0]}")
    most_bytes = LEAST_BYTES + request_count * REPLY_BYTES
    with log.open("wb") as output:
        process = subprocess.Popen(
            words_ended_with_parent(words),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C ends this process, which ends the program
        )
        try:
            while process.poll() is None and not is_stopped.is_set():
                time.sleep(POLL_S)
                _refuse_too_much(replies, most_bytes)
                _refuse_too_much(log, LOG_BYTES)
        finally:
            end_process(process)
    if process.returncode and not is_stopped.is_set():
        raise EndpointUnavailable(
            f"batch_command: {words[0]} ended with {_ending(process.returncode)}, its output is in {log}; the replies "
            "that it wrote are stored, and the same command resumes"
        )
    _refuse_too_much(replies, most_bytes)


def _refuse_too_much(path: Path, most_bytes: int) -> None:
    with suppress(FileNotFoundError):
        size = path.stat().st_size
        if size > most_bytes:
            raise EndpointUnavailable(f"batch_command: found {size:,} bytes in {path}, expected at most {most_bytes:,}")


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"a signal: {signal.strsignal(-code)}"
