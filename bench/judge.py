"""How fast a session asks: wall time over the ideal, and CPU a judgment, beside a plain aiohttp loop.

    python bench/judging.py [--base-url http://127.0.0.1:8931/v1] [--questions 5000] [--in-flight 64] [--latency-s 0.2]

The ideal is questions x latency / in flight. Without --base-url it starts tests/loopback_judge.py.
Prints wall/ideal last.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import aiohttp  # noqa: E402

from rubrics.judging.prompt import (  # noqa: E402
    Case,
    case_digest,
    criterion_digest,
    label_of,
    render_messages,
    reply_schema,
    request_key,
)
from rubrics.model import Criterion  # noqa: E402
from tasks.judging.questions import Answer, Question  # noqa: E402
from tasks.judging.session import JudgingSession, open_session  # noqa: E402
from tasks.judging.settings import JudgeSettings  # noqa: E402

SENTENCE = "The seasonal source often reduces the public network because the careful farmer measures the harbour. "
CRITERION = Criterion.model_validate(
    {
        "id": "clear",
        "description": "Is the text clear to a curious adult?",
        "method": {"type": "judge"},
        "levels": [
            {"id": str(step), "score": step / 4, "description": f"Clear in {step} of 4 respects."} for step in range(5)
        ],
    }
)


def make_question(number: int, judge_digest: str) -> Question:
    """One question of about 1,200 tokens."""
    case = Case(f"Question {number}: {SENTENCE}", f"{number}. {SENTENCE * 24}", SENTENCE * 4, (SENTENCE * 6,))
    key = request_key(judge_digest, criterion_digest(CRITERION), case_digest(case))
    return Question(f"{number:032x}", CRITERION, case, key)


def measure_session(settings: JudgeSettings, count: int) -> tuple[float, float]:
    """Ask through a session: wall seconds, CPU seconds of this process."""
    answers: list[Answer] = []
    with tempfile.TemporaryDirectory() as folder:
        session = open_session(settings, journal_folder=Path(folder), run_id="bench")
        with session:
            if not isinstance(session, JudgingSession):
                raise TypeError("expected a session with an endpoint")
            wall, cpu = time.perf_counter(), time.process_time()
            session.ask((make_question(number, settings.judge_digest) for number in range(count)), answers.append)
            spent = time.perf_counter() - wall, time.process_time() - cpu
    scored_count = sum(answer.status == "scored" for answer in answers)
    sys.stdout.write(f"scored {scored_count} of {count}\n")
    return spent


async def ask_plainly(settings: JudgeSettings, count: int) -> None:
    """The same requests with nothing around them."""
    numbers = iter(range(count, 2 * count))

    async def work(client: aiohttp.ClientSession) -> None:
        for number in numbers:
            question = make_question(number, settings.judge_digest)
            labels = label_of(CRITERION, question.request_key)
            schema = {"type": "json_schema", "json_schema": reply_schema(labels)}
            messages = render_messages(question.case, CRITERION, question.request_key)
            body = {"model": settings.model, "messages": messages, "response_format": schema}
            async with client.post(f"{settings.base_url}/chat/completions", json=body) as response:
                await response.json()

    connector = aiohttp.TCPConnector(limit=settings.max_in_flight)
    async with aiohttp.ClientSession(connector=connector) as client:
        await asyncio.gather(*(work(client) for _ in range(settings.max_in_flight)))


@contextlib.contextmanager
def serve(base_url: str | None, latency_s: float) -> Iterator[str]:
    """The address given, or that of a judge started for this benchmark."""
    if base_url is not None:
        yield base_url
        return
    command = [sys.executable, str(ROOT / "tests" / "loopback_judge.py"), "--latency-s", str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = server.stdout.readline().strip() if server.stdout else ""
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def main() -> None:
    """Measure both ways and print the figures."""
    parser = argparse.ArgumentParser(description="How fast a session asks.")
    parser.add_argument("--base-url")
    parser.add_argument("--questions", type=int, default=5_000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--latency-s", type=float, default=0.2)
    given = parser.parse_args()
    ideal_s = given.questions * given.latency_s / given.in_flight
    with serve(given.base_url, given.latency_s) as base_url:
        settings = JudgeSettings(model="gpt-4o-mini", base_url=base_url, max_in_flight=given.in_flight)
        started, cpu_started = time.perf_counter(), time.process_time()
        asyncio.run(ask_plainly(settings, given.questions))
        plain_s, plain_cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
        wall_s, cpu_s = measure_session(settings, given.questions)
    for name, wall, cpu in (("plain aiohttp", plain_s, plain_cpu_s), ("session", wall_s, cpu_s)):
        sys.stdout.write(f"{name}: {wall:.2f} s, {cpu / given.questions * 1000:.2f} ms CPU a judgment\n")
    sys.stdout.write(f"wall/ideal {wall_s / ideal_s:.3f}\n")


if __name__ == "__main__":
    main()
