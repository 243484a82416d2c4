"""A command in a fork of the ready process: the same as one that starts anew, or not in a fork at all."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gradebook.flows.program.protocol import address_of
from tests.support.nightly import nightly
from tests.support.prefect_homes import embedded, have_ended

GRADEBOOK = str(Path(sys.executable).with_name("gradebook"))
REVIEW = [GRADEBOOK, "review", "reply.txt", "--rubrics", "rubric.yaml"]
LIST = [GRADEBOOK, "checks", "list"]
WAITING = [GRADEBOOK, "review", "-", "--rubrics", "rubric.yaml"]  # until its stdin ends
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ready processes need /proc")


class Home:
    """A folder with a Prefect home whose ready process serves its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = embedded(folder) | {"GRADEBOOK_SERVER_IDLE_S": "300", "PWD": str(folder)}
        (folder / "home").mkdir(exist_ok=True)
        (folder / "reply.txt").write_text("A reply of five words.", encoding="utf-8")

    def run(self, *command: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, without stdin."""
        given = {"cwd": self.folder, "env": self.environment | more, "stdin": subprocess.DEVNULL}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **given)

    def start(self, *command: str, **group: object) -> "subprocess.Popen[str]":
        """Start a command that reads stdin. group: as of `Popen`; by default, that of a job of a shell."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, text=True, **pipes, **(group or {"process_group": 0})
        )

    @property
    def process(self) -> int:
        """Process id of the ready process; 0 if there is none that answers."""
        state = self.folder / "home" / "gradebook-ready-all.json"
        with socket.socket(socket.AF_UNIX) as tried:
            home = {f"{name}=": value for name, value in self.environment.items()}
            is_open = tried.connect_ex(address_of(home)) == 0
        return int(json.loads(state.read_text(encoding="utf-8"))["process_id"]) if is_open else 0

    def forks(self) -> list[int]:
        """Process ids of the commands that it runs now, whose callers have said go."""
        listed = Path(f"/proc/{self.process}/task/{self.process}/children").read_text(encoding="ascii")
        return [int(each) for each in listed.split() if not has_socket(int(each))]

    def served_ticks(self) -> int:
        """CPU time of all commands that it has run."""
        fields = Path(f"/proc/{self.process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return int(fields[13]) + int(fields[14])

    def serves(self, *command: str, **more: str) -> bool:
        """Whether the command runs in a fork."""
        before = self.served_ticks()
        finished = self.run(*command, **more)
        assert finished.returncode == 0, finished.stderr
        return self.served_ticks() > before


def has_socket(process: int) -> bool:
    """Whether a fork still waits for its caller."""
    try:
        return any(str(each.readlink()).startswith("socket:") for each in Path(f"/proc/{process}/fd").iterdir())
    except OSError:  # it has just ended
        return True


def wait_until(is_so: Callable[[], object], timeout_s: float = 60) -> bool:
    end = time.monotonic() + timeout_s
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(is_so())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background it is ignored
    made = Home(tmp_path_factory.mktemp("ready"))
    begin(made)
    yield made
    made.run(GRADEBOOK, "server", "stop")
    assert have_ended(str(made.folder / "home"))


def begin(home: Home) -> None:
    """Have a ready process: a command leaves one."""
    if not home.process:
        assert home.run(*REVIEW).returncode == 0
        assert wait_until(lambda: home.process)


@pytest.fixture
def ready(home: Home) -> Home:
    begin(home)
    return home


@pytest.mark.parametrize(
    "words",
    [
        ["review", "reply.txt", "--rubrics", "rubric.yaml", "--json"],
        ["evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--sample", "1", "--stratify", "no", "--dry-run"],
        ["runs", "--nonsense"],
        *nightly(
            (words,)
            for words in (
                ["review", "missing.txt", "--rubrics", "rubric.yaml"],
                ["checks", "list"],
                ["why", "nobody", "--json"],
            )
        ),
    ],
    ids=" ".join,
)
def test_it_prints_and_exits_as_a_command_that_starts_anew(ready, words):
    anew = ready.run(sys.executable, "-m", "gradebook", *words)
    before = ready.served_ticks()
    forked = ready.run(GRADEBOOK, *words)
    assert ready.served_ticks() > before
    masked = [(each.returncode, mask(each.stdout), mask(each.stderr)) for each in (anew, forked)]
    assert masked[0] == masked[1]


def mask(text: str) -> str:
    """Without the ids and the times of runs."""
    return "\n".join(line for line in text.splitlines() if "run_id" not in line and "_at" not in line)


def test_what_it_is_given_by_a_shell_it_reads(ready):
    for script in (
        "echo 'A reply of five words.' | {0} review - --rubrics rubric.yaml",
        "{0} review <(echo 'A reply of five words.') --rubrics rubric.yaml",
        "exec 9< reply.txt; {0} review /dev/fd/9 --rubrics rubric.yaml",
    ):
        assert ready.serves("bash", "-c", script.format(GRADEBOOK))


@pytest.mark.parametrize(
    "script",
    [
        "OPENAI_BASE_URL=http://127.0.0.1:1 {0}",
        "umask 027; {0}",
        "cd home; {0}",
        *nightly(["ulimit -n 200; {0}", "trap '' TERM; {0}", "nice {0}", "{1} -W ignore {0}"]),
    ],
)
def test_a_command_that_starts_elsewhere_runs_by_itself(ready, script):
    assert ready.serves(*LIST)
    assert not ready.serves("bash", "-c", script.format(" ".join(LIST), sys.executable))


def test_a_closed_stderr_changes_no_exit_code(ready):
    assert ready.run("bash", "-c", f"{GRADEBOOK} runs --nonsense <&- >&- 2>&-").returncode == 2


def test_signals_reach_the_command(ready):
    interrupted = ready.start(*WAITING)
    assert wait_until(ready.forks)
    interrupted.send_signal(signal.SIGINT)
    _, told = interrupted.communicate(timeout=60)
    assert (interrupted.returncode, told) == (3, "gradebook: interrupted; run the same command again to resume\n")

    ended = ready.start(*WAITING)
    assert wait_until(ready.forks)
    ended.send_signal(signal.SIGTERM)
    ended.communicate(timeout=60)
    assert ended.returncode == -signal.SIGTERM


def test_a_stopped_command_stops_and_goes_on(ready):
    command = ready.start(*WAITING)
    assert wait_until(ready.forks)
    (fork,) = ready.forks()
    command.send_signal(signal.SIGTSTP)
    assert wait_until(lambda: "(stopped)" in Path(f"/proc/{fork}/status").read_text(encoding="utf-8"))
    assert "(stopped)" in Path(f"/proc/{command.pid}/status").read_text(encoding="utf-8")
    command.send_signal(signal.SIGCONT)
    out, _ = command.communicate("A reply of five words.", timeout=60)
    assert (command.returncode, out.splitlines()[0]) == (0, "-: approved")


def test_without_a_shell_that_could_continue_it_no_command_stops(ready):
    command = ready.start(*WAITING, start_new_session=True)
    assert wait_until(ready.forks)
    command.send_signal(signal.SIGTSTP)
    out, _ = command.communicate("A reply of five words.", timeout=60)
    assert (command.returncode, out.splitlines()[0]) == (0, "-: approved")


def test_a_killed_command_leaves_nothing_at_work(ready):
    command = ready.start(*WAITING)
    assert wait_until(ready.forks)
    command.kill()
    command.communicate(timeout=60)
    assert wait_until(lambda: not ready.forks())
    assert ready.serves(*REVIEW)


def test_a_stop_lets_commands_end(ready):
    command = ready.start(*WAITING)
    assert wait_until(ready.forks)
    assert ready.run(GRADEBOOK, "server", "stop").returncode == 0
    assert not ready.process
    out, _ = command.communicate("A reply of five words.", timeout=60)
    assert (command.returncode, out.splitlines()[0]) == (0, "-: approved")


def test_one_that_has_served_nothing_gives_way_to_an_unlike_command(home):
    home.run(GRADEBOOK, "server", "stop")
    begin(home)
    left = home.process
    assert home.run(*REVIEW, OPENAI_BASE_URL="http://127.0.0.1:1").returncode == 0
    assert wait_until(lambda: home.process not in (0, left))
    home.run(GRADEBOOK, "server", "stop")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_address_of_another_user_is_not_asked(home):
    home.run(GRADEBOOK, "server", "stop")
    name = address_of({f"{key}=": value for key, value in home.environment.items()})
    program = f"import os, socket; s = socket.socket(socket.AF_UNIX); os.setuid(65534); s.bind({name!r}); s.listen(); "
    program += "[print(s.accept()[0].recv(100), flush=True) for _ in range(2)]"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
        assert wait_until(lambda: _connects(name))
        assert home.run(*REVIEW).returncode == 0
        assert other.stdout
        assert other.stdout.read().splitlines() == ["b''", "b''"]  # the test's, and the command's


def _connects(name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(name) == 0


def test_a_terminal_is_one_for_the_command_too(home):
    def shown(*words: str) -> bytes:
        """All that a terminal shows of a script, which is its only session."""
        child, terminal = pty.fork()
        if child == 0:
            given = home.environment | {"TERM": "xterm-256color"}
            given.pop("NO_COLOR", None)
            os.chdir(home.folder)
            os.execve("/bin/bash", ["bash", "-c", " ".join(words)], given)
        found = b""
        with suppress(OSError):  # the terminal's other end is closed
            while part := os.read(terminal, 65536):
                found += part
        os.close(terminal)
        os.waitpid(child, 0)
        return found

    home.run(GRADEBOOK, "server", "stop")
    shown(*REVIEW)  # leaves a ready process for commands of this terminal
    assert wait_until(lambda: home.process)
    before = home.served_ticks()
    forked = shown(GRADEBOOK, "runs")
    assert home.served_ticks() > before
    assert forked == shown(sys.executable, "-m", "gradebook", "runs")
    assert b"\x1b[" in forked
    before = home.served_ticks()
    assert b"\x1b[" not in shown(GRADEBOOK, "runs", "|", "cat")
    assert home.served_ticks() > before
    until_it_stops = "& for each in {1..300}; do [[ $(jobs) == *Stopped* ]] && break; sleep 0.1; done; jobs; kill -9 %1"
    assert b"Stopped" in shown("set -m;", *WAITING, until_it_stops)  # in the background nothing reads the terminal
    home.run(GRADEBOOK, "server", "stop")


def test_a_killed_ready_process_ends_its_commands(ready):
    command = ready.start(*WAITING)
    assert wait_until(ready.forks)
    (fork,) = ready.forks()
    os.kill(ready.process, signal.SIGKILL)
    _, told = command.communicate(timeout=60)
    assert (command.returncode, "was killed" in told) == (3, True)
    assert wait_until(lambda: not Path(f"/proc/{fork}").exists())


def test_a_ready_process_that_sleeps_keeps_no_pipe_open(ready):
    process = ready.process
    os.kill(process, signal.SIGSTOP)
    try:
        assert ready.run(*LIST).returncode == 0  # all of stdout is read
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.server
@pytest.mark.slow
def test_an_evaluation_in_a_fork_uses_the_shared_server(ready):
    assert ready.serves(GRADEBOOK, "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml")  # starts the server
    assert ready.serves(GRADEBOOK, "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml", "--verbose") is False
    (state,) = (ready.folder / "home").glob("gradebook-server-*.json")
    server = json.loads(state.read_text(encoding="utf-8"))
    import httpx

    user, _, password = server["auth"].partition(":")

    def states(kind: str) -> list[tuple[str, str]]:
        found = httpx.post(f"{server['address']}/{kind}_runs/filter", json={}, auth=(user, password)).json()
        return [(each["name"], each["state_type"]) for each in found]

    assert [state for _, state in states("flow")] == ["COMPLETED", "COMPLETED"]
    # the server records task runs a moment after they end
    assert wait_until(lambda: {state for _, state in states("task")} == {"COMPLETED"})
    assert wait_until(
        lambda: {"ingest", "length · shard 0", "publish", "report"} <= {name for name, _ in states("task")}
    )


def test_settings_that_change_are_read(ready):
    (ready.folder / ".env").write_text("PREFECT_API_URL=http://127.0.0.1:1/api\n", encoding="utf-8")
    try:
        refused = ready.run(GRADEBOOK, "evaluate", "outputs.jsonl", "--rubric", "rubric.yaml")
    finally:
        (ready.folder / ".env").unlink()
    assert refused.returncode == 2
    assert ".env" in refused.stderr
    assert wait_until(lambda: not ready.process)  # it has read other settings
