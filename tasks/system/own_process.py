"""A call in a Python process of its own, whose memory is free again once it has returned."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from gradebook.rubrics.model.errors import UnfinishedError

_PROGRAM = (  # with the same path: a user's folder such as tasks/ must not hide a library's
    f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import answer; answer()"
)
Given = ParamSpec("Given")
Found = TypeVar("Found")


def call_apart(function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
    """Call a function of a module in a new process, which takes a second or two to start; raises what it raises.

    The process is in a session of its own: Ctrl-C does not end it, and it ends by itself. Raises `UnfinishedError` if
    it is killed.
    """
    asked = pickle.dumps((function, args, kwargs))
    command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path)]
    ended = subprocess.run(command, input=asked, stdout=subprocess.PIPE, start_new_session=True, check=False)
    if not ended.stdout:
        raise UnfinishedError(f"the process of {function.__name__} ended without an answer, with {ended.returncode}")
    found, fault = pickle.loads(ended.stdout)
    if fault is not None:
        raise fault
    return found  # type: ignore[no-any-return]


def call_here(function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
    """Call a function in this process."""
    return function(*args, **kwargs)


def answer() -> None:
    """Answer in the new process."""
    report = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed goes to stderr
    function, args, kwargs = pickle.load(sys.stdin.buffer)
    found = fault = None
    try:
        found = function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        fault = error
    with report:
        report.write(pickle.dumps((found, fault)))
