"""Questions for the tests that ask a judge on loopback, and what the journal says of them."""

import datetime
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import Case, case_digest, criterion_digest, request_key
from gradebook.tasks.judging.prices import Price
from gradebook.tasks.judging.replies.journal import read_journal, settled_journals
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.loopback_judge import LoopbackJudge

CANARY = "sk-canary-0123456789"
NOWHERE = "http://127.0.0.1:9/v1"
PRICE = Price(input_usd=1e-6, cached_usd=1e-6, output_usd=1e-6)
TONE = Criterion.model_validate(
    {
        "id": "tone",
        "description": "Is it warm?",
        "method": {"type": "judge"},
        "levels": [{"id": level_id, "score": score} for level_id, score in (("bad", 0), ("fair", 0.5), ("good", 1))],
    }
)


def make_question(number: int, output: str = "Thank you for asking.") -> Question:
    case = Case(f"Question {number}?", output)
    key = request_key("0" * 32, criterion_digest(TONE), case_digest(case))
    return Question(f"{number:032x}", TONE, case, key)


def ask_each(questions: Iterable[Question], criteria: Sequence[Criterion]) -> list[Question]:
    """Questions about the same outputs, one for each criterion."""
    return [
        replace(
            question,
            criterion=criterion,
            request_key=request_key("0" * 32, criterion_digest(criterion), case_digest(question.case)),
        )
        for question in questions
        for criterion in criteria
    ]


def same_question(number: int) -> Question:
    """Question 0 about another output."""
    return replace(make_question(0), output_id=f"{number:032x}")


def ask(
    judge: LoopbackJudge, folder: Path, count: int = 1, budget_usd: float | None = None, **changes: Any
) -> list[Answer]:
    asked = ask_some(judge, folder, range(count), budget_usd, **changes)
    if asked.fault is not None:
        raise asked.fault
    return asked.answers


@dataclass(frozen=True)
class Asked:
    """Outcome of asking: the answers received, and the error that ended it."""

    answers: list[Answer]
    fault: UnfinishedError | None


def ask_some(
    judge: LoopbackJudge, folder: Path, numbers: Iterable[int], budget_usd: float | None = None, **changes: Any
) -> Asked:
    settings = JudgeSettings.model_validate(
        {"model": "m", "base_url": judge.base_url, "max_attempts": 2, "patience_s": 0.2} | changes
    )
    answers: list[Answer] = []
    fault = None
    with open_session(settings, journal_folder=folder, run_id="run", money=Money(budget_usd), price=PRICE) as session:
        questions = [replace(make_question(number), style=settings.style) for number in numbers]
        try:
            session.ask(questions, answers.append)
        except UnfinishedError as ended:
            fault = ended
    return Asked(answers, fault)


def journaled(folder: Path) -> pa.Table:
    return pa.concat_tables(table for path in settled_journals(folder) for table in read_journal(path, 100))


def self_signed(folder: Path) -> ssl.SSLContext:
    """TLS settings of a server with a self-signed certificate."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    signed = built.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(serialization.Encoding.PEM, form, plain)
    (folder / "server.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context
