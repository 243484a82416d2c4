"""A real model behind a real server: readable replies, tokens from the cache, verdicts per second.

    python bench/real_model.py [--cases 6]

Three criteria of each case, in `mode: logprobs` and in replies of at most 96 tokens, by Gemma 3 270M in llama.cpp's
server with two slots and one thread. `make test-models` installs both.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from tests.support.asked import TONE, ask_each, journaled, make_question
from tests.support.real_servers import FOLDER, SERVER, WEIGHTS, RealServer, served_llama

READ = ("scored", "evidence_unverified", "abstained")
ASPECTS = ("Is it warm?", "Does it help?", "Is it brief?")


def make_questions(count: int) -> list[Question]:
    criteria = [TONE.model_copy(update={"id": f"c{place}", "description": text}) for place, text in enumerate(ASPECTS)]
    cases = [make_question(number, "Thank you for asking. Hold the button for ten seconds.") for number in range(count)]
    return ask_each(cases, criteria)


def measure(server: RealServer, mode: str, count: int) -> str:
    """Figures of one mode as a sentence."""
    settings = JudgeSettings.model_validate(
        {"model": "gemma", "base_url": server.base_url, "mode": mode, "max_tokens": 96, "timeout_s": 600}
    )
    answers: list[Answer] = []
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        with open_session(settings, journal_folder=Path(folder), run_id="run") as session:
            session.ask([replace(question, style=settings.style) for question in make_questions(count)], answers.append)
        took_s = time.monotonic() - began
        rows = journaled(Path(folder)).to_pylist()
    read = sum(row["status"] in READ for row in rows) / len(rows)
    cached = sum(row["cached_tokens"] for row in rows) / sum(row["prompt_tokens"] for row in rows)
    scored = sum(answer.status == "scored" for answer in answers)
    return (
        f"{mode}: {read:.0%} of {len(rows)} replies readable, {cached:.0%} of the prompts' tokens from the cache, "
        f"{len(answers) / took_s:.2f} verdicts/s, {scored} of {len(answers)} scored"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=6)
    count = parser.parse_args().cases
    if not (SERVER.exists() and WEIGHTS.exists()):
        print(f"no model in {FOLDER}: `make test-models` installs it")
        return
    with tempfile.TemporaryDirectory() as folder, served_llama(Path(folder) / "log", context_tokens=4096) as server:
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")
        for mode in ("logprobs", "reply"):
            print(measure(server, mode, count), flush=True)


if __name__ == "__main__":
    main()
