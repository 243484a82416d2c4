"""The talk of a command with the ready process.

The command connects, and the ready process says `AWAKE`. The command sends the length of its request with its open
files, then the request, in JSON. The answer is the fork's process id, and the command says `GO`. The last answer is the
exit code. Whoever closes the connection ends the talk: before `GO` the command runs by itself, after it the fork ends.
"""

import os
import struct

from gradebook.flows.program.likeness import Likeness

AWAKE = b"!"  # open files are sent after it: a process that sleeps would keep them open
GO = b"go\n"
STARTED, ENDED = "process", "exit"  # answers, each with a number
LENGTH = struct.Struct("!I")  # of a request in bytes
MOST_DESCRIPTORS = 250  # that one message can carry


def address_of(like: Likeness) -> str:
    """Address of the ready process of a user and a home, in the kernel's names of one network namespace.

    Raises `OSError` if there is no such home.
    """
    home = os.stat(os.path.expanduser(like.get("PREFECT_HOME=") or "~"))
    return f"\0gradebook-ready-{os.geteuid()}-{home.st_dev}-{home.st_ino}"


def given_descriptors() -> list[int]:
    """Numbers of the open files that this process was given: stdin, stdout, stderr and whatever else."""
    found = [int(name) for name in os.listdir("/proc/self/fd")]
    return sorted(each for each in found if _is_given(each))


def _is_given(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)  # no file is that Python itself has opened
    except OSError:  # the list itself
        return False
