"""The Prefect server of a person's commands, if the settings name no other.

The first command starts it, later ones find it, and it ends when no command has used it for a while. Its start takes
seconds and as much CPU time as a small evaluation. Prefect can start such a server too, but imports its whole server
into the command for that, and ends it with each command.
"""

import atexit
import errno
import hashlib
import http.client
import os
import platform
import secrets
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import gradebook
from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.system.folder_settings import (
    NAMES,
    prefect_home,
    profiles_file,
    refuse_folder_settings,
    unusable_home,
)
from gradebook.tasks.system.kept_process import (
    KeptProcess,
    find_process,
    inherited,
    log_file,
    read_answer,
    start_process,
    state_file,
)

KIND = "server"
API_URL = "PREFECT_API_URL"
API_AUTH = "PREFECT_API_AUTH_STRING"
SERVER_AUTH = "PREFECT_SERVER_API_AUTH_STRING"
CERTIFICATES = "PREFECT_API_SSL_CERT_FILE"
STARTUP_TIMEOUT = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"  # Prefect's setting; gradebook.flows sets it
REVIVAL_COUNT = 5  # restarts for one command, after which a server is taken for broken
LOOK_S = 0.5
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
# A command keeps its own log quiet; the server's log has to say why it did not start.
LOG_LEVELS = ("PREFECT_LOGGING_", "PREFECT_INTERNAL_LOGGING_", "PREFECT_SERVER_LOGGING_")
# Settings of the command that do not change what the server is; all others are part of its identity.
OF_THE_COMMAND = (*LOG_LEVELS, "PREFECT_CLIENT_")
_ahead: "list[SharedServer]" = []  # of this command, started before it has checked its request


class SharedServer:
    """The server that this command uses: found running, or started.

    While the command runs, a server that is gone is started again at the same address; Prefect's clients repeat their
    requests until then. A new one serves from `go_on` or `announce` on.
    """

    def __init__(self, home: Path) -> None:
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unusable_home(f"{home}, which can't be made ({error.strerror})") from error
        self._home = home
        self._state = state_file(home, KIND, settings_digest(home))
        self._running = find_process(self._state)
        self._process = None if self._running else self._start()

    def go_on(self) -> None:
        """Let a new server that waits serve."""
        if self._process is not None:
            _let_serve(self._process)

    def give_up(self) -> None:
        """End a new server that waits."""
        if self._process is not None:
            with self._process as waiting:
                waiting.kill()

    def announce(self) -> None:
        """Put the server's address into the environment, from which Prefect takes it when it is imported.

        A new process has read Prefect's settings: if they name another server, nothing is announced.
        Raises `UnfinishedError` if the process exits without an answer.
        """
        if self._process is not None:
            self._running = self._read_answer(self._process)
        if self._running is not None:
            os.environ[API_URL], os.environ[API_AUTH] = self._running.address, self._running.auth
            os.environ.setdefault(CERTIFICATES, str(_one_certificate(self._home)))
            if "prefect" in sys.modules:  # in a fork of a ready process
                from prefect.context import refresh_global_settings_context

                refresh_global_settings_context()

    def wait(self) -> None:
        """Return when the server answers. Raises `UnfinishedError` if it does not start."""
        if self._running is None:
            return
        timeout_s = float(os.environ[STARTUP_TIMEOUT])
        end = time.monotonic() + timeout_s
        is_again = False
        while True:
            # Looked at first: the process that holds the port of a killed server takes connections and never answers.
            if find_process(self._state) is None:  # idle until now, while this process imported Prefect
                if is_again:
                    raise UnfinishedError(f"Prefect's server did not start; its log is {log_file(self._state)}")
                self._read_answer(self._start(self._running))
                is_again = True
            elif server_answers(self._running):
                break
            if time.monotonic() > end:
                raise UnfinishedError(
                    f"Prefect's server (process {self._running.process_id}) did not answer within {timeout_s:g} s "
                    f"({STARTUP_TIMEOUT}); `gradebook server stop` ends it, its log is {log_file(self._state)}"
                )
            time.sleep(0.05)
        threading.Thread(target=self._revive, args=[self._running], daemon=True).start()

    @property
    def is_new(self) -> bool:
        """Whether this command started it: its first answer takes a second, and more the next one."""
        return self._process is not None

    @property
    def address(self) -> str | None:
        """The address, once it is announced; None if Prefect's settings name another server."""
        return self._running.address if self._running else None

    def _start(self, before: KeptProcess | None = None) -> "subprocess.Popen[str]":
        """Start a server process, at the address and with the password of an earlier one if there was one."""
        auth = before.auth if before else os.environ.get(SERVER_AUTH) or f"gradebook:{secrets.token_urlsafe(32)}"
        program = [str(Path(__file__).with_name("process.py"))]
        port = str(before.port if before else 0)
        environment = inherited(but=(API_URL, API_AUTH, *LOG_LEVELS)) | {SERVER_AUTH: auth}
        try:
            return start_process(self._state, program, port, environment=environment, stdin=subprocess.PIPE)
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            raise unusable_home(f"{error.filename}, which can't be written ({error.strerror})") from error

    def _read_answer(self, process: "subprocess.Popen[str]") -> KeptProcess | None:
        """The server that a new process starts, once it is told to, or finds; None if it is not needed."""
        _let_serve(process)
        try:
            return read_answer(process)
        except OSError as error:
            raise UnfinishedError(f"Prefect's server did not start; its log is {log_file(self._state)}") from error

    def _revive(self, running: KeptProcess) -> None:
        """Keep the server in use until the command ends, and start it again whenever it is gone."""
        for _ in range(REVIVAL_COUNT):
            while find_process(self._state) is not None:
                server_answers(running)
                time.sleep(LOOK_S)
            with suppress(UnfinishedError):
                self._read_answer(self._start(running))


def start_ahead() -> None:
    """Start the server that `shared_server` will return, while the command still checks its request.

    Until then it only reads Prefect's settings; if the command ends before, so does the process.
    """
    with suppress(Exception):  # `shared_server` raises it again, where it is reported
        _ahead.extend(filter(None, [_find_or_start()]))


@atexit.register
def _give_up() -> None:
    for server in _ahead:
        server.give_up()


def shared_server() -> SharedServer | None:
    """The server of this person's commands; None if the environment names one, or a program has imported Prefect.

    Raises `InputError` for settings of Prefect in the current folder, which the operator does not allow, and for a
    folder of Prefect that can't be made.
    """
    server = _ahead.pop() if _ahead else _find_or_start()
    if server is not None:
        server.go_on()
    return server


def _find_or_start() -> SharedServer | None:
    refuse_folder_settings(os.environ)
    is_embedded = "prefect" in sys.modules and not gradebook.IS_READY
    return None if os.environ.get(API_URL) or is_embedded else SharedServer(prefect_home())


def _let_serve(process: "subprocess.Popen[str]") -> None:
    if process.stdin and not process.stdin.closed:
        with suppress(BrokenPipeError), process.stdin as told:  # it has ended: its answer is missing
            told.write("go\n")


def server_answers(server: KeptProcess) -> bool:
    """Whether a server serves requests by now."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def settings_digest(home: Path) -> str:
    """Digest of what a server depends on: machine, programs, Prefect's variables and settings files; 12 hex digits."""
    names = sorted(name for name in os.environ if name.startswith("PREFECT_") and not name.startswith(OF_THE_COMMAND))
    network = Path("/proc/self/ns/net")  # on a shared home, a server of another container can't be reached
    parts = [sys.executable, metadata.version("prefect"), metadata.version("gradebook"), str(home), platform.node()]
    parts += [str(network.readlink()) if network.is_symlink() else ""]
    parts += [f"{name}={os.environ[name]}" for name in names if name != CERTIFICATES]
    for file in (profiles_file(), *map(Path, NAMES)):
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        parts.append(text if file.name != "pyproject.toml" or "tool.prefect" in text else "")
    return hashlib.blake2b(os.fsencode("\0".join(parts)), digest_size=6).hexdigest()


def _one_certificate(home: Path) -> Path:
    """A CA bundle of one certificate in Prefect's folder, written by the first command.

    Prefect parses the full bundle of 140 certificates for each of its 22 HTTP clients, 20 ms of CPU each time.
    This server speaks plain HTTP, so no client of it needs a certificate.
    """
    path = home / "gradebook-certificate.pem"
    if not path.exists():
        import certifi

        from gradebook.tasks.system.files import write_text  # with Arrow and DuckDB

        begin, end = "-----BEGIN", "-----END CERTIFICATE-----\n"
        first = Path(certifi.where()).read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
        write_text(path, f"{begin}{first}{end}")
    return path
