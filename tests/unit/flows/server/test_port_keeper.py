"""The port of a killed server: nobody else's until a server with the same password takes it."""

import signal
import socket
import subprocess
import sys
import time

import pytest

from gradebook.flows.server.port_keeper import take_port

SERVER = """
import socket, sys
from gradebook.flows.server.port_keeper import keep_port
listening = socket.create_server(("127.0.0.1", 0))
end = keep_port(listening, "secret")
print(listening.getsockname()[1], flush=True)
sys.stdin.readline()
end()
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets are handed over on Linux alone")


@pytest.fixture
def server():
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        process.kill()


def bind(port: int) -> None:
    socket.create_server(("127.0.0.1", port)).close()


def test_a_killed_server_s_port_is_handed_to_whoever_knows_its_password(server):
    port = int(server.stdout.readline())
    assert take_port("secret") is None  # it lives
    server.send_signal(signal.SIGKILL)
    server.wait()
    with pytest.raises(OSError, match="in use"):
        bind(port)
    assert take_port("another") is None
    end = time.monotonic() + 60
    while (listening := take_port("secret")) is None and time.monotonic() < end:  # the other process still starts
        time.sleep(0.01)
    with listening:
        assert listening.getsockname()[1] == port
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_server_that_ends_leaves_its_port(server):
    port = int(server.stdout.readline())
    server.communicate("\n")
    bind(port)
