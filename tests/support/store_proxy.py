"""A proxy before a server of S3, which cuts uploads in half, loses their answers, or refuses them for a while."""

import socket
import threading
from contextlib import suppress
from typing import Literal

Fault = Literal["cut", "lost", "503", "403"]
REFUSALS = {
    fault: f"HTTP/1.1 {words}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    for fault, words in (("503", "503 Slow Down"), ("403", "403 Forbidden"))
}


class FaultyStore:
    """Passes bytes on between clients and a server on loopback.

    fault: what happens to uploads; None: nothing. left_count: how many uploads it still happens to.
    """

    def __init__(self, server_port: int) -> None:
        self.fault: Fault | None = None
        self.left_count = 0
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Take no more clients."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        is_lost = threading.Event()
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._server_port)) as server:
            threading.Thread(target=_answer, args=(server, client, is_lost), daemon=True).start()
            while sent := client.recv(2**20):
                if self.left_count and self.fault and sent.startswith((b"PUT ", b"POST ")):
                    self.left_count -= 1
                    if self.fault in REFUSALS:
                        client.sendall(REFUSALS[self.fault])
                        break
                    if self.fault == "cut":
                        server.sendall(sent[: len(sent) // 2])
                        break
                    is_lost.set()
                server.sendall(sent)
            server.shutdown(socket.SHUT_RDWR)


def _answer(server: socket.socket, client: socket.socket, is_lost: threading.Event) -> None:
    with suppress(OSError):
        while (answer := server.recv(2**20)) and not is_lost.is_set():
            client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)
