"""Speed, cost and safety of a judge session, compared with plain request loops in the same run.

    python bench/judge.py [speed] [short] [forms] [limit] [cache] [faults] [memory] [--questions 5000] [--in-flight 64]
                          [--many-questions 100000]

speed: wall time over the ideal (questions x latency / in flight) at 200 ms, and CPU per judgment. short: judgments per
second at 20 ms. forms: CPU per judgment in Anthropic's form relative to OpenAI's, in turn. limit: used share of a rate
limit per minute, and share of refused requests. cache: input price of 8 criteria on outputs of 1,200 tokens relative to
no caching, with cached tokens at a tenth, in both forms. faults: lost judgments if one request in five fails. memory:
resident memory after --many-questions judgments. Default: all but memory. The judge is tests/support/loopback_judge.py,
or loopback_anthropic.py, in a process of its own.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
from openai import AsyncOpenAI

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import Case, case_digest, criterion_digest, request_key
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Form
from gradebook.tasks.judging.transport.endpoint import request_body

JUDGE = Path(__file__).parents[1] / "tests" / "support" / "loopback_judge.py"
SERVERS: dict[Form, Path] = {"openai": JUDGE, "anthropic": JUDGE.with_name("loopback_anthropic.py")}
SENTENCE = "The seasonal source often reduces the public network because the careful farmer measures the harbour. "
ASPECTS = ("clear", "kind", "brief", "apt", "sound", "safe", "fresh", "whole")
LIMIT_A_MINUTE, LIMIT_S = 6_000, 30
CACHED_PRICE, WRITTEN_PRICE = 0.1, 1.25  # relative to an uncached token
FAULTS = {"500": 0.05, "drop": 0.02, "garbage": 0.03, "empty": 0.03, "length": 0.03, "liar": 0.02, "503": 0.02}
ENOUGH_ATTEMPTS = 12


def make_criterion(aspect: str) -> Criterion:
    """Criterion of five levels, about 150 tokens."""
    levels = [{"id": str(n), "score": n / 4, "description": f"{aspect} in {n} of 4 respects."} for n in range(5)]
    description = f"Is the text {aspect} to a curious adult who reads it once, without looking anything up?"
    return Criterion.model_validate(
        {"id": aspect, "description": description, "method": {"type": "judge"}, "levels": levels}
    )


CRITERIA = [make_criterion(aspect) for aspect in ASPECTS]


def make_question(number: int, settings: JudgeSettings, criterion: Criterion) -> Question:
    """Question of about 1,200 tokens."""
    case = Case(f"Question {number}: {SENTENCE}", f"{number}. {SENTENCE * 24}", SENTENCE * 4, (SENTENCE * 6,))
    key = request_key(settings.judge_digest, criterion_digest(criterion), case_digest(case))
    return Question(f"{number:032x}", criterion, case, key, style=settings.style)


def make_questions(settings: JudgeSettings, numbers: Iterable[int], criterion_count: int = 1) -> Iterator[Question]:
    """Questions, output by output."""
    for number in numbers:
        for criterion in CRITERIA[:criterion_count]:
            yield make_question(number, settings, criterion)


@contextlib.contextmanager
def served(*options: str, judge: Path = JUDGE) -> Iterator[str]:
    """Start a judge for one measurement; yields its address."""
    command = [sys.executable, str(judge), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = server.stdout.readline().strip() if server.stdout else ""
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def read_stats(base_url: str) -> dict[str, int]:
    """Request counts of the judge."""
    with urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/stats") as answer:
        stats: dict[str, int] = json.load(answer)
    return stats


def ask_session(settings: JudgeSettings, questions: Iterator[Question]) -> tuple[float, float, dict[str, int]]:
    """Ask through a session; returns wall and CPU seconds of this process, and answer counts by status or reason."""
    counts: dict[str, int] = {}

    def keep(answer: Answer) -> None:
        name = answer.reason or answer.status
        counts[name] = counts.get(name, 0) + 1

    with (
        tempfile.TemporaryDirectory() as folder,
        open_session(settings, journal_folder=Path(folder), run_id="bench") as session,
    ):
        wall, cpu = time.perf_counter(), time.process_time()
        session.ask(questions, keep)
        spent = time.perf_counter() - wall, time.process_time() - cpu
    return *spent, counts


def make_bodies(settings: JudgeSettings, questions: Iterator[Question]) -> Iterator[dict[str, Any]]:
    """Request bodies as a session sends them."""
    for question in questions:
        yield request_body(settings, question.request(), 0, settings.max_tokens)


async def ask_aiohttp(settings: JudgeSettings, bodies: Iterator[dict[str, Any]]) -> None:
    """Send the bodies with aiohttp, without limits, retries or journal."""

    async def work(client: aiohttp.ClientSession) -> None:
        for body in bodies:
            async with client.post(f"{settings.base_url}/chat/completions", json=body) as response:
                json.loads((await response.json())["choices"][0]["message"]["content"])

    connector = aiohttp.TCPConnector(limit=settings.max_in_flight)
    async with aiohttp.ClientSession(connector=connector) as client:
        await asyncio.gather(*(work(client) for _ in range(settings.max_in_flight)))


async def ask_openai(settings: JudgeSettings, bodies: Iterator[dict[str, Any]]) -> None:
    """Send the bodies with the openai client and its defaults."""

    async def work(client: AsyncOpenAI) -> None:
        for body in bodies:
            reply = await client.chat.completions.create(**body)
            json.loads(reply.choices[0].message.content or "")

    async with AsyncOpenAI(api_key="none", base_url=settings.base_url) as client:
        await asyncio.gather(*(work(client) for _ in range(settings.max_in_flight)))


def print_timing(name: str, wall_s: float, cpu_s: float, count: int, ideal_s: float | None = None) -> None:
    """Print the timing of one method."""
    over = f", {wall_s / ideal_s:.3f} x ideal" if ideal_s else ""
    print(f"{name:24}{wall_s:8.2f} s{count / wall_s:10,.0f} per second{cpu_s / count * 1000:8.2f} ms CPU each{over}")


def compare_speed(count: int, in_flight: int, latency_s: float) -> None:
    """Ask the same questions with both plain loops and a session."""
    ideal_s = count * latency_s / in_flight
    print(f"{count} judgments, {in_flight} in flight, {latency_s * 1000:.0f} ms")
    with served("--latency-s", str(latency_s)) as base_url:
        settings = JudgeSettings(model="gpt-4o-mini", base_url=base_url, max_in_flight=in_flight)
        for place, (name, ask) in enumerate((("plain aiohttp", ask_aiohttp), ("plain openai", ask_openai)), start=1):
            bodies = make_bodies(settings, make_questions(settings, range(place * count, (place + 1) * count)))
            wall, cpu = time.perf_counter(), time.process_time()
            asyncio.run(ask(settings, bodies))
            print_timing(name, time.perf_counter() - wall, time.process_time() - cpu, count, ideal_s)
        wall_s, cpu_s, counts = ask_session(settings, make_questions(settings, range(count)))
    print_timing("session", wall_s, cpu_s, counts.get("scored", 0), ideal_s)


def compare_forms(count: int, in_flight: int) -> None:
    """Ask the same questions in both forms, three times in turn; the least CPU of each form counts."""
    least = dict.fromkeys(SERVERS, float("inf"))
    for _ in range(3):
        for form, judge in SERVERS.items():
            with served("--latency-s", "0.02", judge=judge) as base_url:
                settings = JudgeSettings(model="m", base_url=base_url, form=form, max_in_flight=in_flight)
                _, cpu_s, counts = ask_session(settings, make_questions(settings, range(count), len(CRITERIA)))
            least[form] = min(least[form], cpu_s / max(1, counts.get("scored", 0)))
    words = ", ".join(f"{form} {cpu_s * 1000:.2f} ms CPU per judgment" for form, cpu_s in least.items())
    print(f"{words}: {least['anthropic'] / least['openai']:.2f} x")


def compare_limit(in_flight: int) -> None:
    """Ask for half a minute under a limit that is known only from refusals."""
    count = LIMIT_A_MINUTE * LIMIT_S // 60
    with served("--latency-s", "0.1", "--rpm", str(LIMIT_A_MINUTE)) as base_url:
        settings = JudgeSettings(model="gpt-4o-mini", base_url=base_url, max_in_flight=in_flight)
        wall_s, _, counts = ask_session(settings, make_questions(settings, range(count)))
        stats = read_stats(base_url)
    used, refused = stats["answered"] / wall_s * 60 / LIMIT_A_MINUTE, stats["refused"] / stats["requests"]
    print(f"limit of {LIMIT_A_MINUTE} per minute: {used:.1%} used, {refused:.2%} refused, {counts}")


def compare_cache(in_flight: int) -> None:
    """Ask eight criteria of each output, in both forms; Anthropic's has a price for what is written to the cache."""
    for form, judge in SERVERS.items():
        with served("--latency-s", "0.05", judge=judge) as base_url:
            settings = JudgeSettings(model="m", base_url=base_url, form=form, max_in_flight=in_flight)
            ask_session(settings, make_questions(settings, range(200), len(CRITERIA)))
            stats = read_stats(base_url)
        cached, written = (stats[name] / stats["prompt_tokens"] for name in ("cached_tokens", "written_tokens"))
        price = 1 - cached * (1 - CACHED_PRICE) + written * (WRITTEN_PRICE - 1)
        print(f"8 criteria, 1,200 tokens, {form}: {cached:.1%} cached, input price {price:.3f} of uncached")


def count_losses(count: int, in_flight: int) -> None:
    """Ask a judge that fails one request in five."""
    faults = [word for name, rate in FAULTS.items() for word in ("--fault", f"{name}={rate}")]
    with served("--latency-s", "0.02", *faults) as base_url:
        settings = JudgeSettings(
            model="gpt-4o-mini", base_url=base_url, max_in_flight=in_flight, max_attempts=ENOUGH_ATTEMPTS
        )
        wall_s, cpu_s, counts = ask_session(settings, make_questions(settings, range(count)))
    print_timing("with faults", wall_s, cpu_s, count)
    print(f"answers: {counts}")


def measure_memory(count: int, in_flight: int) -> None:
    """Ask very many questions and print the resident memory."""
    with served() as base_url:
        settings = JudgeSettings(model="gpt-4o-mini", base_url=base_url, max_in_flight=in_flight)
        before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        wall_s, cpu_s, counts = ask_session(settings, make_questions(settings, range(count)))
        after_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print_timing(f"{count:,} judgments", wall_s, cpu_s, counts.get("scored", 0))
    print(f"peak resident {after_mb:.0f} MB, {before_mb:.0f} MB before the first question")


def main() -> None:
    """Run the named measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--questions", type=int, default=5_000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--many-questions", type=int, default=100_000)
    given = parser.parse_args()
    measured: dict[str, Callable[[], None]] = {
        "memory": lambda: measure_memory(given.many_questions, given.in_flight),
        "faults": lambda: count_losses(given.questions, given.in_flight),
        "cache": lambda: compare_cache(given.in_flight),
        "limit": lambda: compare_limit(given.in_flight),
        "forms": lambda: compare_forms(given.questions // len(CRITERIA), given.in_flight),
        "short": lambda: compare_speed(given.questions, given.in_flight, 0.02),
        "speed": lambda: compare_speed(given.questions, given.in_flight, 0.2),
    }
    unknown = [name for name in given.names if name not in measured]
    if unknown:
        parser.error(f"found {', '.join(unknown)}, expected {', '.join(measured)}")
    os.environ.pop("OPENAI_API_KEY", None)
    for name, measure in measured.items():
        if name in given.names or (not given.names and name != "memory"):
            measure()


if __name__ == "__main__":
    main()
