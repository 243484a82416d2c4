"""State files of kept processes, in a folder that others can write."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from gradebook.tasks.system.kept_process import claim_state, find_process, start_process, stop_processes

STATE = {"address": "http://127.0.0.1:9", "auth": "a", "process_id": 0, "started_at": "", "idle_s": 5}


def plant(path: Path, kind: str) -> None:
    """Put there what another user could: a file that he may write, a link or a pipe."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (path.parent / "elsewhere").write_text("precious")
        path.symlink_to(path.parent / "elsewhere")
    else:
        path.write_text(json.dumps(STATE))
        path.chmod(0o666)


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_a_state_file_of_others_is_no_process_and_nothing_is_ended_or_overwritten(tmp_path, kind):
    state = tmp_path / "gradebook-server-x.json"
    plant(state, kind)
    with os.fdopen(os.open(state, os.O_RDWR), "rb", 0) as held:  # with its lock, as a process has it
        fcntl.flock(held, fcntl.LOCK_EX)
        assert find_process(state) is None
        assert stop_processes(tmp_path, "server") == 0  # or process 0: this one and its group
    with pytest.raises(OSError):  # noqa: PT011 - ELOOP or EPERM
        claim_state(state)
    state.unlink()
    plant(state.with_suffix(".log"), kind)
    with pytest.raises(OSError):  # noqa: PT011
        start_process(state, ["-c", "0"], environment={})
    assert kind != "link" or (tmp_path / "elsewhere").read_text() == "precious"


def test_a_state_file_of_one_s_own_is_found(tmp_path):
    state = tmp_path / "gradebook-server-x.json"
    with claim_state(state) as file:
        file.write(json.dumps(STATE | {"process_id": 7}))
        file.flush()
        assert find_process(state).process_id == 7
    assert find_process(state) is None
