"""A Prefect server for one command, where the settings name no other: it ends with the command, however that ends.

Prefect would start one too, but only after the import of its whole server into the command, and kill -9 would leave it.
"""

import atexit
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, cast

from gradebook.rubrics.model.errors import UnfinishedError

API_URL = "PREFECT_API_URL"
CERTIFICATES = "PREFECT_API_SSL_CERT_FILE"
STARTUP_TIMEOUT = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"  # Prefect's name for it; flows sets it
LONGEST_FAREWELL_S = 12.0  # the process itself ends within 10


class OwnServer:
    """The process of a server. Its stdin is the life of the command: it ends when that is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("process.py"))],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the command, which has yet to tell the server how its run ended
        )
        self._life, self._said = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        self._is_wanted = True
        atexit.register(self._stop)  # after the end of Prefect's threads, which send until then

    def introduce(self) -> None:
        """Name the server to Prefect, which reads its settings when it is imported: it must not be yet.

        The process has read the settings too: where they name another server, it says so and ends.
        Raises `UnfinishedError` where it did not come so far.
        """
        if address := self._hear():
            os.environ[API_URL] = address
            os.environ.setdefault(CERTIFICATES, self._one_certificate())
        else:
            self._is_wanted = False

    def wait(self) -> None:
        """Return when the server answers. Raises `UnfinishedError` where it did not start."""
        timeout_s = float(os.environ[STARTUP_TIMEOUT])
        if not self._is_wanted:
            return
        if not select.select([self._said], [], [], timeout_s)[0]:
            raise UnfinishedError(f"Prefect's server did not start within {timeout_s:g} s ({STARTUP_TIMEOUT})")
        self._hear()

    def _one_certificate(self) -> str:
        """A file of one certificate. Prefect reads all that there are, 140, for each of two dozen clients a run; this
        server speaks plain HTTP, and whoever is trusted by one alone is asked for nothing else.
        """
        import certifi

        begin, end = "-----BEGIN", "-----END CERTIFICATE-----\n"
        first = Path(certifi.where()).read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
        file = tempfile.NamedTemporaryFile("w", prefix="gradebook-", suffix=".pem", encoding="ascii")  # noqa: SIM115
        file.write(f"{begin}{first}{end}")
        file.flush()
        self._certificate = file  # goes with it
        return file.name

    def _hear(self) -> str:
        line = self._said.readline()
        if not line:
            raise UnfinishedError("Prefect's server did not start; what it said stands above")
        return line.decode().strip()

    def _stop(self) -> None:
        self._life.close()
        try:
            self._process.wait(LONGEST_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def begin_own_server() -> OwnServer | None:
    """Start a server in the background, unless the environment names one, or Prefect has read its settings already."""
    return None if os.environ.get(API_URL) or "prefect" in sys.modules else OwnServer()
