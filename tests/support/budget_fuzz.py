"""Fuzzed runs under a budget: a session against an endpoint that bills, with random prices, sizes, tiers and faults.

The endpoint adds up what it bills by a price list of its own, in exact fractions, for every request that it answered or
may have billed. `fuzz_budget` says what did not hold.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import orjson
from aiohttp import web

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import Case, case_digest, criterion_digest, request_key
from gradebook.tasks.judging.budget import read_budget
from gradebook.tasks.judging.prices import MESSAGE_OVERHEAD_TOKENS, Price
from gradebook.tasks.judging.replies.journal import read_journal, settled_journals
from gradebook.tasks.judging.replies.question import Question
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.judge import JudgeSettings

FAULTS = ("500", "429", "drop", "hang", "length", "uncounted", "garbage", "empty")
TIERS_NAMED: dict[str | None, tuple[str | None, ...]] = {
    "default": ("default", "standard", None),
    "flex": ("flex", "default", None),
    "priority": ("priority", "default", "turbo"),
    "auto": ("default", "priority", "flex", None, "turbo"),
    None: ("default", "priority", None, "turbo"),
}
LEVELS = [{"id": level_id, "score": score} for level_id, score in (("bad", 0), ("fair", 0.5), ("good", 1))]
TONE = Criterion.model_validate(
    {"id": "tone", "description": "Is it warm?", "method": {"type": "judge"}, "levels": LEVELS}
)


@dataclass
class Till:
    """One run's endpoint: what it charges, how it fails, and what it has billed, by the number of the request."""

    rng: np.random.Generator
    price: Price
    tier_asked: str | None
    fault_rate: float
    hang_s: float
    bills: dict[int, Fraction] = field(default_factory=dict)
    request_count: int = 0

    def bill(self, number: int, tokens: dict[str, int], tier: str | None) -> None:
        """Charge a request, by arithmetic that has nothing of the code under test."""
        _, dearer = self.price.tiers[0] if self.price.tiers else (0, self.price)
        is_long = bool(self.price.tiers) and tokens["prompt"] > self.price.tiers[0][0]
        unit = dearer if is_long else self.price
        factors = dict(self.price.tier_factors)
        factor = factors["default"] if tier is None else factors.get(tier, max(factors.values()))
        fresh = tokens["prompt"] - tokens["cached"] - tokens["written"]
        written_usd = unit.write_usd if unit.write_usd is not None else unit.input_usd * 1.25
        parts = (
            (fresh, unit.input_usd),
            (tokens["cached"], unit.cached_usd),
            (tokens["written"], written_usd),
            (tokens["completion"], unit.output_usd),
        )
        self.bills[number] = Fraction(factor) * sum((count * Fraction(usd) for count, usd in parts), Fraction(0))

    @property
    def billed_usd(self) -> float:
        """Everything that the run will find on its bill."""
        return float(sum(self.bills.values(), Fraction(0)))


class BillingEndpoint:
    """Serves the tills of many runs from one thread, each under a path of its own."""

    def __init__(self) -> None:
        self.tills: dict[str, Till] = {}
        self.address = ""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> web.AppRunner:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/{run}/v1/chat/completions", self._completion)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        body, till = json.loads(await request.read()), self.tills[request.match_info["run"]]
        till.request_count += 1
        number, rng = till.request_count, till.rng
        fault = str(rng.choice(FAULTS)) if rng.random() < till.fault_rate else ""
        if fault in ("500", "429"):  # refused: not billed
            return web.json_response({"error": {"message": "no"}}, status=int(fault), headers={"Retry-After": "0"})
        tokens = _draw_tokens(rng, body, fault)
        tier = TIERS_NAMED[till.tier_asked][rng.integers(len(TIERS_NAMED[till.tier_asked]))]
        till.bill(number, tokens, tier)
        if fault == "hang":
            await asyncio.sleep(till.hang_s)
        if fault == "drop" and request.transport is not None:
            request.transport.close()
        if fault == "garbage":
            return web.Response(text="<html>a gateway</html>", content_type="text/html")
        return web.json_response(_completion_body(body, number, tokens, tier, fault))


def _draw_tokens(rng: np.random.Generator, body: dict[str, Any], fault: str) -> dict[str, int]:
    """Tokens as dear as a tokenizer can make them, and no dearer: one a byte, and a few around each message."""
    sent = orjson.dumps([body["messages"], body["response_format"]["json_schema"]])
    prompt = int(len(sent) * rng.choice((0.25, 0.5, 1.0))) + int(rng.integers(MESSAGE_OVERHEAD_TOKENS // 2))
    most = body.get("max_tokens") or body["max_completion_tokens"]
    completion = most if fault == "length" or rng.random() < 0.1 else int(rng.integers(most + 1))
    cached = int(rng.integers(prompt + 1)) if rng.random() < 0.5 else 0
    written = int((prompt - cached) * rng.choice((0, 0, rng.random(), 1)))
    return {"prompt": prompt, "cached": cached, "written": written, "completion": completion}


def _completion_body(
    body: dict[str, Any], number: int, tokens: dict[str, int], tier: str | None, fault: str
) -> dict[str, Any]:
    levels = body["response_format"]["json_schema"]["schema"]["properties"]["level"]["enum"]
    text = json.dumps({"evidence": [], "rationale": "Because.", "level": levels[0]})
    content = {"length": text[:20], "empty": ""}.get(fault, text)
    details = {"cached_tokens": tokens["cached"], "cache_write_tokens": tokens["written"]}
    usage = {"prompt_tokens": tokens["prompt"], "completion_tokens": tokens["completion"]}
    answer: dict[str, Any] = {
        "model": f"m-{number}",  # by which the ledger's rows are found again
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "length" if fault == "length" else "stop",
            }
        ],
    }
    if tier is not None:
        answer["service_tier"] = tier
    return answer if fault == "uncounted" else answer | {"usage": usage | {"prompt_tokens_details": details}}


@dataclass
class Fuzzed:
    """Outcome of one run. faults: broken promises, in words."""

    request_count: int
    billed_usd: float
    is_stopped: bool  # by its budget, or because nobody answered
    faults: list[str]


def fuzz_budget(endpoint: BillingEndpoint, seed: int, folder: Path) -> Fuzzed:
    """Run a session to its end, then once more with a larger budget, and hold the books against the bill."""
    rng = np.random.default_rng(seed)
    run, tier_asked = f"run-{seed}", (None, "auto", "default", "flex", "priority")[rng.integers(5)]
    timeout_s = float(rng.choice((0.15, 0.5)))
    till = Till(np.random.default_rng([seed, 1]), _draw_price(rng), tier_asked, float(rng.choice((0, 0.1, 0.4))), 0.0)
    till.hang_s = timeout_s + 0.05
    endpoint.tills[run] = till
    settings = JudgeSettings(
        model="m",
        base_url=f"{endpoint.address}/{run}/v1",
        service_tier=tier_asked,
        max_in_flight=int(rng.integers(1, 17)),
        timeout_s=timeout_s,
        max_attempts=int(rng.integers(1, 3)),
        patience_s=float(rng.choice((0.0, 1.0))),
        max_tokens=int(rng.integers(1, 400)),
    )
    questions = [_question(seed, number, int(rng.integers(1, 4_000))) for number in range(rng.integers(2, 30))]
    worst_usd = 2.5 * len(questions) * (8_000 * till.price.input_usd + 400 * till.price.output_usd)
    budgets_usd = np.sort(worst_usd * rng.choice((0, 0.1, 0.5, 1, 4), 2) * rng.random(2))
    is_stopped, faults = False, []
    for budget_usd in budgets_usd.tolist():
        is_stopped = _ask(settings, till.price, questions, budget_usd, folder)
        if till.billed_usd > budget_usd:
            faults.append(f"seed {seed}: billed {till.billed_usd!r} USD of a budget of {budget_usd!r}")
    return Fuzzed(till.request_count, till.billed_usd, is_stopped, faults + _wrong_books(seed, till, folder))


def _draw_price(rng: np.random.Generator) -> Price:
    def draw(scale: float) -> Price:
        input_usd = float(10 ** rng.uniform(-8, -4)) if scale == 1 else scale
        return Price(
            input_usd,
            input_usd * float(rng.random()),
            input_usd * float(rng.uniform(1, 10)),
            write_usd=None if rng.random() < 0.5 else input_usd * float(rng.uniform(1, 2)),
        )

    price = draw(1)
    tiers = ((int(rng.integers(200, 3_000)), draw(price.input_usd * 2)),) if rng.random() < 0.3 else ()
    factors = dict(price.tier_factors) | {"priority": float(rng.uniform(1, 3)), "flex": float(rng.uniform(0.1, 1))}
    return Price(price.input_usd, price.cached_usd, price.output_usd, tiers, price.write_usd, factors)


def _question(seed: int, number: int, length: int) -> Question:
    case = Case(f"Question {seed}/{number}?", ("word é " * length)[:length])
    key = request_key("0" * 32, criterion_digest(TONE), case_digest(case))
    return Question(f"{number:032x}", TONE, case, key)


def _ask(settings: JudgeSettings, price: Price, questions: list[Question], budget_usd: float, folder: Path) -> bool:
    """Ask all there is; returns whether the run was stopped."""
    ignore: Callable[[object], None] = id
    try:
        with open_session(
            settings,
            journal_folder=folder,
            run_id="run",
            money=Money(budget_usd, folder / "books" / "budget.jsonl"),
            price=price,
        ) as session:
            session.ask(questions, ignore)
    except UnfinishedError:
        return True
    return False


def _wrong_books(seed: int, till: Till, folder: Path) -> list[str]:
    """Where the ledger's rows or the budget's record differ from the bill."""
    wrong = []
    rows = [
        row
        for path in settled_journals(folder)
        for table in read_journal(path, 1_000)
        for row in table.select(["model_returned", "cost_usd"]).to_pylist()
    ]
    for row in rows:
        if row["model_returned"] is None or row["cost_usd"] is None:  # no usage came with it
            continue
        billed_usd = float(till.bills[int(row["model_returned"].removeprefix("m-"))])
        if abs(row["cost_usd"] - billed_usd) > 1e-9 * billed_usd:
            wrong.append(f"seed {seed}: the ledger has {row['cost_usd']!r} USD, billed were {billed_usd!r}")
    counted_usd = sum(read_budget(folder / "books" / "budget.jsonl").values())
    if counted_usd < till.billed_usd * (1 - 1e-9):
        wrong.append(f"seed {seed}: the budget counted {counted_usd!r} USD, billed were {till.billed_usd!r}")
    return wrong
