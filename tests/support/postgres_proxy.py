"""A proxy before a PostgreSQL server's socket, which loses a commit on its way, or the answer to it on its way back."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

SOCKET = ".s.PGSQL.5432"


class LossyProxy:
    """Passes bytes on between a client and the server.

    lost_count: how many commits from now lose their answer; is_reached: whether the server had those commits.
    """

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self.lost_count = 0
        self.is_reached = True
        self._server = str(server / SOCKET)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET))
        self._listener.listen(32)

    def serve(self) -> None:
        """Take clients until it is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Take no more clients."""
        with suppress(OSError):  # it is closed
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _pass_on(self, client: socket.socket) -> None:
        is_lost = threading.Event()
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._server)
            threading.Thread(target=_answer, args=(server, client, is_lost), daemon=True).start()
            while sent := client.recv(2**20):
                if self.lost_count and b"COMMIT" in sent:
                    self.lost_count -= 1
                    if not self.is_reached:
                        break
                    is_lost.set()
                server.sendall(sent)
            server.shutdown(socket.SHUT_RDWR)  # closed alone, it would stay open for the thread that reads it


def _answer(server: socket.socket, client: socket.socket, is_lost: threading.Event) -> None:
    with suppress(OSError):
        while (answer := server.recv(2**20)) and not is_lost.is_set():
            client.sendall(answer)
    with suppress(OSError):  # also where the server was killed before it read all, which resets its end
        client.shutdown(socket.SHUT_RDWR)
