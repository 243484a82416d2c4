"""A Prefect server for one command, if the settings name no other. It ends with the command, even after a SIGKILL.

Prefect can start such a server too, but only after it has imported its whole server into the command, which takes a
quarter more CPU time for a small evaluation; and a SIGKILL of the command leaves that server running.
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
STARTUP_TIMEOUT = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"  # Prefect's setting; gradebook.flows sets it
SHUTDOWN_TIMEOUT_S = 12.0  # the process exits within 10 s by itself


class OwnServer:
    """The process of a server. It exits when its stdin is closed, and so at the latest with this process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("process.py"))],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must not stop it: the command reports the end of its run to it
        )
        self._stdin, self._stdout = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        self._is_needed = True
        atexit.register(self._stop)  # runs after Prefect's threads, which send events until they end

    def announce(self) -> None:
        """Put the server's address into the environment. Call it before the first import of Prefect, which reads it.

        The process has read Prefect's settings: if they name another server, it prints no address and exits.
        Raises `UnfinishedError` if it exits earlier.
        """
        if address := self._read_line():
            os.environ[API_URL] = address
            os.environ.setdefault(CERTIFICATES, self._write_one_certificate())
        else:
            self._is_needed = False

    def wait(self) -> None:
        """Return when the server answers. Raises `UnfinishedError` if it does not start."""
        timeout_s = float(os.environ[STARTUP_TIMEOUT])
        if not self._is_needed:
            return
        if not select.select([self._stdout], [], [], timeout_s)[0]:
            raise UnfinishedError(f"Prefect's server did not start within {timeout_s:g} s ({STARTUP_TIMEOUT})")
        self._read_line()

    def _write_one_certificate(self) -> str:
        """Write a CA bundle of one certificate; returns its path.

        Prefect parses the full bundle of 140 certificates for each of its 22 HTTP clients, 20 ms of CPU each time.
        This server speaks plain HTTP, so no client of it needs a certificate.
        """
        import certifi

        begin, end = "-----BEGIN", "-----END CERTIFICATE-----\n"
        first = Path(certifi.where()).read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
        file = tempfile.NamedTemporaryFile("w", prefix="gradebook-", suffix=".pem", encoding="ascii")  # noqa: SIM115
        file.write(f"{begin}{first}{end}")
        file.flush()
        self._certificate = file  # deleted when this object is
        return file.name

    def _read_line(self) -> str:
        line = self._stdout.readline()
        if not line:
            raise UnfinishedError("Prefect's server did not start; what it said stands above")
        return line.decode().strip()

    def _stop(self) -> None:
        self._stdin.close()
        try:
            self._process.wait(SHUTDOWN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_own_server() -> OwnServer | None:
    """Start a server in the background, unless the environment names one or Prefect has read its settings already."""
    return None if os.environ.get(API_URL) or "prefect" in sys.modules else OwnServer()
