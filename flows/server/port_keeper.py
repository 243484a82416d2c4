"""The port of a server that was killed, held until the server is started again.

Clients of the killed server go on sending its password to the port. If the port were free, a process of another user
could listen there and hear it, and the server that is started again has the same password. So a small process has the
listening socket too, and hands it over. Only on Linux: elsewhere the port is free for about a second.

    python port_keeper.py LISTENING_DESCRIPTOR PIPE_DESCRIPTOR
"""

import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress

ADDRESS = "GRADEBOOK_KEEPER_ADDRESS"
HANDOVER_S = 20.0  # after which the port is free again
TRIES, BETWEEN_S = 50, 0.1  # until an earlier keeper has left its address


def keep_port(listening: socket.socket, auth: str) -> Callable[[], None]:
    """Start a process that holds a listening socket for `HANDOVER_S` beyond a kill of this one; returns its end."""
    if sys.platform != "linux":
        return lambda: None
    import subprocess

    reading, writing = os.pipe()  # closed by the kernel when this process dies
    kept = (listening.fileno(), reading)
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *map(str, kept)],
        pass_fds=kept,
        env={ADDRESS: _address(auth)},  # arguments are seen by all users
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(reading)

    def end() -> None:
        keeper.kill()
        keeper.wait()
        os.close(writing)

    return end


def take_port(auth: str) -> socket.socket | None:
    """The listening socket of a killed server with this password; None if nobody of this user holds it."""
    if sys.platform == "linux":
        with suppress(OSError), socket.socket(socket.AF_UNIX) as meeting:
            meeting.settimeout(HANDOVER_S)
            meeting.connect(f"\0{_address(auth)}")
            if is_own(meeting):
                _, descriptors, _, _ = socket.recv_fds(meeting, 1, 1)
                return socket.socket(fileno=descriptors[0]) if descriptors else None
    return None


def main() -> None:
    """Wait for the server's end, then hand its socket to the first process of this user that asks for it."""
    listening, pipe, address = int(sys.argv[1]), int(sys.argv[2]), os.environ[ADDRESS]
    os.read(pipe, 1)
    meeting = socket.socket(socket.AF_UNIX)
    for _ in range(TRIES):
        with suppress(OSError):
            meeting.bind(f"\0{address}")
            break
        time.sleep(BETWEEN_S)
    meeting.listen()
    end_at = time.monotonic() + HANDOVER_S
    while (left_s := end_at - time.monotonic()) > 0:
        meeting.settimeout(left_s)
        asking, _ = meeting.accept()
        if is_own(asking):
            socket.send_fds(asking, [b"x"], [listening])
            return
        asking.close()


def _address(auth: str) -> str:
    """Address in the kernel, in no folder; nobody can have it before a server has its password."""
    import hashlib  # the keeper itself needs neither it nor its 5 MB

    return f"gradebook-{hashlib.blake2b(auth.encode(), digest_size=8).hexdigest()}"


def is_own(connected: socket.socket) -> bool:
    """Whether a process of this user is at the other end of a connection; only on Linux."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.geteuid())


if __name__ == "__main__":
    main()
