"""Lines of a file of replies, whatever an endpoint or a program writes."""

import json
import shlex
import sys
import threading
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.batches.files import index_replies
from gradebook.tasks.judging.session.program_asking import run_program

DEEP = "[" * 500 + "]" * 500  # levels that are read, and are too many to be written


@pytest.mark.parametrize(
    ("line", "reason", "billed_count"),
    [
        ({"error": {"message": {"a": 1}}}, "no reply", 0),
        ({"error": {"message": ["a"]}}, "no reply", 0),
        ({"error": {"message": 7}, "response": [1]}, "no reply", 0),
        ({"response": {"status_code": 400, "body": {"error": {"message": [1], "code": {}}}}}, "HTTP 400", 0),
        ({"response": {"status_code": 200, "body": json.loads(DEEP)}}, "HTTP 200", 1),
    ],
)
def test_a_line_of_strange_values_is_a_failure_with_a_reason(
    tmp_path: Path, line: dict, reason: str, billed_count: int
):
    file = tmp_path / "replies.jsonl"
    file.write_text(json.dumps(line | {"custom_id": "k"}) + "\n", encoding="utf-8")
    found = index_replies([file], {"k"}, None, 0.25)
    assert (found.places, found.failures, found.lost_count(1)) == ({}, {"k": reason}, billed_count)


def test_a_program_that_a_nameless_signal_ends_is_told_as_one(tmp_path: Path):
    words = [sys.executable, "-c", "import os; os.kill(os.getpid(), 40)"]
    command = f"{shlex.join(words)} {{in}} {{out}}"
    with pytest.raises(EndpointUnavailable, match="a signal: "):
        run_program(command, tmp_path / "in.jsonl", tmp_path / "out.jsonl", 1, threading.Event())
