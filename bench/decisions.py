"""Speed and price of a decision model, compared with an LLM judge.

    python bench/decisions.py [part ...] [--outputs 1000] [--in-flight 8] [--rounds 200]

Parts, all by default:
speed: wall time of a session over the ideal (outputs x latency / in flight) for 5 criteria an output at 400 ms a
request, requests, and CPU per verdict.
command: the same by `gradebook evaluate`.
rewards: 64 completions x 8 criteria by `gradebook train serve`, over the service's own time (64 x latency / in
flight).
price: calculated for 8 criteria on outputs of 1,200 tokens, over that of an LLM judge with a perfect prefix cache.
cascade: simulated judges; how often the mean corrected by an audit covers the second judge's mean, and the loss of the
chosen rule holds on 200,000 fresh verdicts.
The service is tests/support/loopback_decisions.py in a process of its own.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from bench.judge import ASPECTS, make_criterion
from gradebook.rubrics.prompts.decisions import question_digest
from gradebook.rubrics.prompts.prompt import Case, case_digest, request_key
from gradebook.rubrics.statistics.calibration import Rated, corrected_mean
from gradebook.rubrics.statistics.cascade_rule import JudgedTwice, choose_rule
from gradebook.tasks.judging.prices import Price, Usage, cost_usd
from gradebook.tasks.judging.replies.batched_criteria import typed_requests
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings

SERVICE = Path(__file__).parents[1] / "tests" / "support" / "loopback_decisions.py"
CRITERIA = [make_criterion(aspect) for aspect in ASPECTS]
LATENCY_S, ASKED = 0.4, 5  # a request; criteria an output
COMPLETIONS, REWARD_BATCHES = 64, 4
DIGESTS = [question_digest(each) for each in CRITERIA[:ASKED]]
SENTENCE = "The seasonal source often reduces the public network because the careful farmer measures the harbour. "
CASE_TOKENS, QUESTION_TOKENS, REPLY_TOKENS = 1_200, 150, 120
LLM = Price(0.15e-6, 0.075e-6, 0.60e-6)
DECISIONS = Price(0.042e-6, 0.042e-6, 0.0)


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Start the service for one measurement; yields its address."""
    command = [sys.executable, str(SERVICE), "--latency-s", str(LATENCY_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield str(server.stdout.readline()).strip() if server.stdout else ""
        finally:
            server.terminate()


def stats(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{address}/stats", timeout=5) as answer:
        return dict(json.loads(answer.read()))


def case(number: int) -> Case:
    """Case of about 1,200 tokens."""
    return Case(f"Question {number}: {SENTENCE}", f"{number}. {SENTENCE * 24}", SENTENCE * 4, (SENTENCE * 6,))


def questions(number: int) -> list[Question]:
    """Questions about an output; in a run the plan has their keys."""
    shown = case(number)
    digest = case_digest(shown)
    keys = [request_key("0" * 32, asked, digest) for asked in DIGESTS]
    return [Question(f"{number:032x}", each, shown, key) for each, key in zip(CRITERIA, keys, strict=False)]


def measure_session(output_count: int, in_flight: int) -> None:
    answers: list[Answer] = []
    with served() as address, tempfile.TemporaryDirectory() as folder:
        settings = JudgeSettings.model_validate(
            {"model": "m", "form": "systemone", "base_url": f"{address}/v1", "max_in_flight": in_flight}
        )
        requests = (each for number in range(output_count) for each in typed_requests(questions(number), settings))
        with open_session(settings, journal_folder=Path(folder), run_id="bench") as session:
            began, cpu_s = time.perf_counter(), time.process_time()
            session.ask(requests, lambda came: answers.extend(came.answers))
            wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
        told = stats(address)
    scored = sum(answer.status == "scored" for answer in answers)
    show("session", output_count, in_flight, wall_s, cpu_s, scored, told)


def measure_command(output_count: int, in_flight: int) -> None:
    with served() as address, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [{"case_id": f"c{n}", "model": "m", **written(case(n))} for n in range(output_count)]
        (folder / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        rubric = {"id": "bench", "version": "1.0.0", "criteria": [dumped(each) for each in CRITERIA[:ASKED]]}
        (folder / "rubric.yaml").write_text(json.dumps(rubric), encoding="utf-8")
        judge = {"model": "m", "form": "systemone", "base_url": f"{address}/v1", "max_in_flight": in_flight}
        (folder / "judge.yaml").write_text(json.dumps(judge), encoding="utf-8")
        words = (
            "evaluate",
            "outputs.jsonl",
            "--rubric",
            "rubric.yaml",
            "--judge",
            "judge.yaml",
            "--no-report",
            "--json",
        )
        began, before = time.perf_counter(), os.times()
        ended = subprocess.run(
            [sys.executable, "-m", "gradebook", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        wall_s, after = time.perf_counter() - began, os.times()
        cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
        if ended.returncode not in (0, 1):
            raise SystemExit(ended.stderr)
        told = stats(address)
    show("command", output_count, in_flight, wall_s, cpu_s, output_count * ASKED, told)


def measure_rewards(in_flight: int) -> None:
    """Time of batches of completions by the server of rewards, the first one with its connections."""
    with served() as address, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rubric = {"id": "bench", "version": "1.0.0", "criteria": [dumped(each) for each in CRITERIA]}
        (folder / "rubric.yaml").write_text(json.dumps(rubric), encoding="utf-8")
        judge = {"model": "m", "form": "systemone", "base_url": f"{address}/v1", "max_in_flight": in_flight}
        (folder / "judge.yaml").write_text(json.dumps(judge), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = ("train", "serve", "rubric.yaml", "--judge", "judge.yaml", "--port", str(port))
        with subprocess.Popen([sys.executable, "-m", "gradebook", *command], cwd=folder) as server:
            try:
                await_server(f"http://127.0.0.1:{port}/health")
                for batch in range(REWARD_BATCHES):
                    numbers = range(batch * COMPLETIONS, (batch + 1) * COMPLETIONS)
                    rows = [{**written(case(number)), "reference": "Any."} for number in numbers]
                    before = stats(address)["requests"]
                    began = time.perf_counter()
                    scores = post(f"http://127.0.0.1:{port}/score", {"outputs": rows})["scores"]
                    wall_s = time.perf_counter() - began
                    ratio = wall_s / (COMPLETIONS * LATENCY_S / in_flight)
                    scored = sum(score["reward"] is not None for score in scores)
                    requests = stats(address)["requests"] - before
                    say(f"rewards, batch {batch + 1}: {scored} in {wall_s:.2f} s, {ratio:.3f} x; {requests} requests")
            finally:
                server.terminate()


def await_server(address: str) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.1)
    raise SystemExit(f"no server at {address}")


def post(address: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(json.loads(answer.read()))


def written(shown: Case) -> dict[str, Any]:
    return {
        "prompt": shown.prompt,
        "output": shown.output,
        "reference": shown.reference,
        "context": list(shown.context),
    }


def dumped(criterion: Any) -> dict[str, Any]:
    return dict(criterion.model_dump(exclude_defaults=True, mode="json"))


def show(
    name: str, output_count: int, in_flight: int, wall_s: float, cpu_s: float, verdict_count: int, told: dict[str, Any]
) -> None:
    ideal_s = output_count * LATENCY_S / in_flight
    say(f"{name}: {verdict_count:,} verdicts in {wall_s:.1f} s, {wall_s / ideal_s:.3f} x the ideal {ideal_s:.1f} s")
    say(f"  {told['requests']:,} requests, at most {told['most_in_flight']} in flight")
    say(f"  {1000 * cpu_s / max(verdict_count, 1):.3f} ms CPU a verdict")


def measure_price() -> None:
    """Price of an output with 8 criteria: calculated, not measured."""
    count = len(CRITERIA)
    prompt = count * (CASE_TOKENS + QUESTION_TOKENS)
    llm = cost_usd(LLM, Usage(prompt, (count - 1) * CASE_TOKENS, count * REPLY_TOKENS)) or 0.0
    decisions = cost_usd(DECISIONS, Usage(CASE_TOKENS + count * QUESTION_TOKENS)) or 0.0
    say(f"price: ${decisions:.6f} an output, ${llm:.6f} of an LLM judge: {decisions / llm:.3f} of it (calculated)")


def simulated(rng: np.random.Generator, case_count: int, criterion_count: int, tilt: float) -> JudgedTwice:
    """Verdicts of a first judge whose probabilities are too sure by a tilt, and of a second one by the true ones."""
    size = (case_count, criterion_count)
    ability = 0.7 * rng.normal(size=(case_count, 1)) + rng.normal(size=size)
    true = 1 / (1 + np.exp(-2 * ability - 1.5))
    passed = (rng.random(size) < true).astype(np.float64).ravel()
    told = (1 / (1 + np.exp(-tilt * (2 * ability + 1.5)))).ravel()
    cases, none = np.repeat(np.arange(case_count), criterion_count), np.zeros(told.size, dtype=np.bool_)
    doubts = {"share_below": np.maximum(told, 1 - told)}
    costs = np.full(told.size, 1e-5), np.full(told.size, 2e-4)
    return JudgedTwice(doubts, (told > 0.5) != (passed > 0.5), none, none, told, passed, cases, *costs, cases)


def measure_cascade(rounds: int) -> None:
    """Coverage of the corrected mean, and how often the loss of the chosen rule holds."""
    for criterion_count in (1, 4):
        for tilt in (0.7, 1.0, 1.5):
            rng = np.random.default_rng(20_261_129)
            fresh = simulated(rng, 200_000 // criterion_count, criterion_count, tilt)
            kept, found, asked = 0, 0, []
            for _ in range(rounds):
                chosen = choose_rule(simulated(rng, 400, criterion_count, tilt), 0.05, 0.95, rng).chosen
                if chosen is not None:
                    found += 1
                    left = ~chosen.rule.is_asked(fresh.doubts["share_below"])
                    kept += bool((fresh.is_other & left).mean() <= 0.05)
                    asked.append(1 - left.mean())
            share = f"{np.mean(asked):.1%} asked" if asked else "none"
            say(f"rule, {criterion_count} criteria, tilt {tilt}: holds in {kept} of {found} of {rounds}; {share}")
    for case_count, audit in ((1_000, 0.05), (1_000, 0.2), (4_000, 0.05)):
        for tilt in (0.7, 1.0, 1.5):
            rng = np.random.default_rng(20_261_130)
            truth = simulated(rng, 400_000, 1, tilt).second.mean()
            covered, unseen, biases = 0, 0, []
            for _ in range(5 * rounds):
                pairs = simulated(rng, case_count, 1, tilt)
                is_drawn = rng.random(case_count) < audit
                by_rule = np.where(pairs.doubts["share_below"] < 0.8, pairs.second, pairs.first)
                rated = Rated(pairs.second[is_drawn], by_rule[is_drawn], by_rule[~is_drawn])
                mean = corrected_mean(rated, (0.0, 1.0))
                if mean.value is None or mean.ci_low is None or mean.ci_high is None:
                    unseen += 1
                    continue
                covered += bool(mean.ci_low <= truth <= mean.ci_high)
                biases.append(mean.value - truth)
            rate, off = covered / (5 * rounds - unseen), float(np.mean(biases))
            say(f"audit of {audit:.0%} of {case_count:,}, tilt {tilt}: covered {rate:.1%}, bias {off:+.4f}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], metavar="part")
    parser.add_argument("--outputs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=200, help="of simulations; five times as many of means")
    parser.add_argument("--in-flight", type=int, default=8)
    given = parser.parse_args()
    parts = given.parts or ["speed", "command", "rewards", "price", "cascade"]
    if "cascade" in parts:
        measure_cascade(given.rounds)
    if "speed" in parts:
        measure_session(given.outputs, given.in_flight)
    if "command" in parts:
        measure_command(given.outputs, given.in_flight)
    if "rewards" in parts:
        measure_rewards(given.in_flight)
    if "price" in parts:
        measure_price()


if __name__ == "__main__":
    main()
