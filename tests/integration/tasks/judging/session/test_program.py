"""Judges that a program of the operator answers: a real program, a file at a time, whatever it does."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable, JudgeSettingsError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.prompts.media import Medium
from gradebook.tasks.judging.batches.files import write_request_files
from gradebook.tasks.judging.budget import BudgetRecord, read_budget
from gradebook.tasks.judging.prices import Price
from gradebook.tasks.judging.replies.journal import read_journal, settled_journals
from gradebook.tasks.judging.replies.question import Answer
from gradebook.tasks.judging.session.session import JudgingSession, Money, open_session
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import refuse_unpaired_keys
from gradebook.tasks.operations.doctor.judge import examine_judge
from gradebook.tasks.system.operator_settings import PROGRAMS
from tests.support.batch_jobs import ALL_KEYS, COUNT, SHARDS, questions_of
from tests.support.published_runs import publish
from tests.support.samples import write_lines

PROGRAM = Path(__file__).parents[4] / "support" / "batch_program.py"
PRICE = Price(input_usd=1e-6, cached_usd=1e-6, output_usd=1e-6)


def command_of(folder: Path, fault: str = "") -> str:
    """Command of the stand-in. Its fault is in the first call alone, unless it is an `always ..`."""
    words = [sys.executable, str(PROGRAM), "-i", "{in}", "-o", "{out}", "--model", "m", "--fault", fault]
    command = shlex.join([*words, "--calls", str(folder / "calls")])
    return command.replace("'{in}'", "{in}").replace("'{out}'", "{out}")


@contextmanager
def session_of(folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str = "") -> Iterator[JudgingSession]:
    command = command_of(folder, fault)
    monkeypatch.setenv(PROGRAMS, command)
    settings, money = JudgeSettings(model="m", batch_command=command), Money(record=folder / "budget.jsonl")
    with open_session(settings, journal_folder=folder / "journal", run_id="run", money=money, price=PRICE) as session:
        yield session


def ask(session: JudgingSession) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}

    def keep(answer: Answer) -> None:
        answers[answer.question.request_key] = answer

    session.ask([question for shard in SHARDS for question in questions_of(shard)], keep)
    return answers


def calls(folder: Path) -> list[int]:
    """Number of requests in each file that the program got."""
    path = folder / "calls"
    return [int(line) for line in path.read_text(encoding="ascii").split()] if path.exists() else []


def journaled_keys(folder: Path) -> list[str]:
    paths = settled_journals(folder / "journal")
    return [key for path in paths for table in read_journal(path, 100) for key in table["request_key"].to_pylist()]


def test_one_file_answers_all_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with session_of(tmp_path, monkeypatch) as session:
        answers = ask(session)
    assert sorted(answers) == sorted(ALL_KEYS)
    assert {answer.reason for answer in answers.values()} == {None}
    assert [answer.cost_usd for answer in answers.values()] == [pytest.approx(520e-6)] * COUNT  # at the full price
    assert calls(tmp_path) == [COUNT]
    assert sorted(journaled_keys(tmp_path)) == sorted(ALL_KEYS)
    assert not [path for path in (tmp_path / "journal" / "programs").rglob("*") if path.is_file()]


def test_an_equal_question_of_a_later_call_is_answered_without_another_judgment(tmp_path: Path, monkeypatch):
    with session_of(tmp_path, monkeypatch) as session:
        ask(session)
        again = ask(session)  # as outputs of another shard with the same text
    assert [answer.cost_usd for answer in again.values()] == [0.0] * COUNT
    assert calls(tmp_path) == [COUNT]
    assert sorted(journaled_keys(tmp_path)) == sorted(ALL_KEYS)


def test_a_reply_counts_although_its_image_is_gone_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    image = tmp_path / "a.png"
    image.write_bytes(b"an image")

    def load() -> bytes:
        content = image.read_bytes()
        image.unlink()
        return content

    medium = Medium(1, "image", "output", "PNG", digest_of(b"an image"), 100, 100, "a.png", load=load)
    question = next(questions_of(0))
    question = replace(question, case=replace(question.case, media=(medium,)))
    answers: list[Answer] = []
    with session_of(tmp_path, monkeypatch) as session:
        session.ask([question], answers.append)
    assert [answer.reason for answer in answers] == [None]


@pytest.mark.parametrize(("fault", "lost_count"), [("missing", 1), ("broken", 1), ("long", 1), ("refused", 0)])
def test_a_line_that_is_no_reply_is_asked_for_once_more(tmp_path: Path, monkeypatch, fault: str, lost_count: int):
    with session_of(tmp_path, monkeypatch, fault) as session:
        answers = ask(session)
    assert {answer.reason for answer in answers.values()} == {None}
    assert calls(tmp_path) == [COUNT, 1]
    record = BudgetRecord(tmp_path / "budget.jsonl")
    record.close()
    asked = ((shard, question) for shard in SHARDS for question in questions_of(shard))
    settings = JudgeSettings(model="m", batch_command=command_of(tmp_path))
    (file,) = write_request_files(tmp_path, asked, settings, PRICE, 1.0)
    assert file.largest_usd > 1024e-6  # in full, not at the price of a batch
    assert record.spent_usd == pytest.approx(COUNT * 520e-6 + lost_count * file.largest_usd)


@pytest.mark.parametrize(
    ("fault", "expected", "count"),
    [
        ("always strangers", "endpoint_error: the program wrote no reply to it", COUNT),
        ("always refused", "endpoint_error: HTTP 400 prompt is too long", 1),
    ],
)
def test_what_stays_without_a_reply_is_unscored_and_says_why(tmp_path, monkeypatch, fault, expected, count):
    with session_of(tmp_path, monkeypatch, fault) as session:
        answers = ask(session)
    assert [answer.reason for answer in answers.values() if answer.reason] == [expected] * count


def test_a_program_that_fails_ends_the_run_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with (
        pytest.raises(EndpointUnavailable, match="exit code 1, its output is in .*log") as caught,
        session_of(tmp_path, monkeypatch, "exit") as session,
    ):
        ask(session)
    (log,) = (tmp_path / "journal" / "programs").rglob("*.log")
    assert str(log) in str(caught.value)
    assert "out of memory" in log.read_text(encoding="utf-8")
    assert len(journaled_keys(tmp_path)) == 2


def test_a_program_that_writes_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gradebook.tasks.judging.session.program_asking.LOG_BYTES", 2**22)
    with (
        pytest.raises(EndpointUnavailable, match=r"found [\d,]+ bytes in .*log, expected at most 4,194,304"),
        session_of(tmp_path, monkeypatch, "endless") as session,
    ):
        ask(session)


KILLED = """
import importlib.util, sys
from pathlib import Path
import pytest
sys.path.insert(0, {root!r})
spec = importlib.util.spec_from_file_location("program", {file!r})
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
with pytest.MonkeyPatch.context() as patch, program.session_of(Path({folder!r}), patch, "kill parent") as session:
    program.ask(session)
"""


@pytest.mark.nightly
def test_what_a_program_wrote_before_a_kill_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    code = KILLED.format(root=str(PROGRAM.parents[2]), file=__file__, folder=str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", code], cwd=PROGRAM.parents[2], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr.decode()
    reserved_usd = read_budget(tmp_path / "budget.jsonl")
    with session_of(tmp_path, monkeypatch, "kill parent") as session:  # its fault was in the first call
        answers = ask(session)
    assert {answer.reason for answer in answers.values()} == {None}
    assert calls(tmp_path) == [COUNT, COUNT - 2]
    assert sorted(journaled_keys(tmp_path)) == sorted(ALL_KEYS)
    (worst_usd,), settled_usd = reserved_usd.values(), read_budget(tmp_path / "budget.jsonl")
    # Of the killed file two requests cost what their replies say, and each other one may have cost its worst.
    assert worst_usd * (COUNT - 2) / COUNT < settled_usd[1] < worst_usd
    assert settled_usd[2] < worst_usd * 0.1


def test_a_program_that_nobody_allowed_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    command = command_of(tmp_path)
    settings = JudgeSettings(model="m", batch_command=command)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for allowed in ("", command.replace("--model m", "--model n"), command[:-1]):
        monkeypatch.setenv(PROGRAMS, allowed)
        with pytest.raises(JudgeSettingsError, match="a program that nobody allowed"):
            refuse_unpaired_keys(settings, {PROGRAMS: allowed})
        with (
            pytest.raises(JudgeSettingsError),
            open_session(settings, journal_folder=tmp_path / "journal", run_id="run") as session,
        ):
            ask(session)
    assert calls(tmp_path) == []
    (tmp_path / "config" / "gradebook").mkdir(parents=True)
    file = tmp_path / "config" / "gradebook" / "settings.toml"
    file.write_text(f"[programs]\nallow = [{command!r}]\n", encoding="utf-8")
    refuse_unpaired_keys(settings, {"XDG_CONFIG_HOME": str(tmp_path / "config")})


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("batch_command: run", "with {in} and {out} for the files"),
        ("batch_command: '{in} {out}'", "a program and its arguments"),
        ("batch_command: p {in} {out}\nmode: batch", "batch_command without mode: batch"),
        ("batch_command: p {in} {out}\npacking: 2", "batch_command without packing"),
        ('batch_command: "p \'{in} {out}"', "No closing quotation"),
    ],
)
def test_a_command_that_can_t_be_one_is_refused(tmp_path: Path, more: str, expected: str):
    (tmp_path / "judge.yaml").write_text(f"model: m\n{more}\n", encoding="utf-8")
    with pytest.raises(JudgeSettingsError) as caught:
        read_judge(str(tmp_path / "judge.yaml"), {})
    assert expected in str(caught.value)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_whole_run_is_judged_by_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rubric = """
    id: both
    version: 1.0.0
    criteria:
      - {id: tone, description: Is it kind?, weight: 1, method: {type: judge}, scale: {min: 1, max: 3}}
      - {id: groundedness, description: Is it there?, weight: 1, method: {type: claims}}
    """
    (tmp_path / "rubric.yaml").write_text(rubric, encoding="utf-8")
    command = command_of(tmp_path)
    (tmp_path / "judge.yaml").write_text(f"model: m\nbatch_command: {command!r}\n", encoding="utf-8")
    monkeypatch.setenv(PROGRAMS, command)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # nobody is there
    context = ["The shop is open."]
    rows: list[dict[str, Any]] = [
        {"case_id": f"c{place}", "model": "m", "output": text, "context": context}
        for place, text in enumerate(("The shop is open.", "The moon is cheese."))
    ]
    outputs = write_lines(tmp_path / "outputs.jsonl", rows)
    run = publish(outputs, tmp_path / "rubric.yaml", judge=str(tmp_path / "judge.yaml"))
    assert run.run["status"] == "published"
    assert calls(tmp_path) == [2, 2, 2]  # tone, the claims, and what the context says of them
    (finding,) = examine_judge(str(tmp_path / "judge.yaml"))
    assert (finding.check, finding.severity) == ("m: program", "ok")
