"""Saves on the rating page, beside a bare Starlette handler with JSON and fsync in the same run.

For 1, 20 and 100 raters at once: median and 99th percentile of a save, their ratio to the bare handler's, and the
server's memory. Last line: the largest ratio of medians.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urljoin

import aiohttp
import psutil

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit
from tests.support.rated_lake import TONE
from tests.support.rating_server import rating_server
from tests.support.scored_lake import make_lake, write_scores

SAVES = 600  # of all raters together
BARE = """
import json, os, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
async def save(request):
    os.write(file, (json.dumps(await request.json()) + "\\n").encode())
    os.fsync(file)
    return JSONResponse({"ok": True})
uvicorn.run(Starlette(routes=[Route("/", save, methods=["POST"])]), port=int(sys.argv[2]), log_level="critical")
"""
BARE_PORT = 28_411


@contextmanager
def bare_server(folder: Path):
    command = [sys.executable, "-c", BARE, str(folder / "bare.jsonl"), str(BARE_PORT)]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.terminate()


async def save_bare(session: aiohttp.ClientSession, times: list[float]) -> None:
    body = {"level.tone": "good", "note.tone": "kind", "version": 0}
    begun = perf_counter()
    async with session.post(f"http://127.0.0.1:{BARE_PORT}/", json=body) as answer:
        expect(200, answer.status, await answer.text())
    times.append(perf_counter() - begun)


async def save_ours(session: aiohttp.ClientSession, origin: str, times: list[float]) -> None:
    async with session.get(origin) as sheet:
        address = str(sheet.url)
        await sheet.read()
    sent = {"version": "0", "action": "submit", "level.tone": "good", "note.tone": "kind"}
    begun = perf_counter()
    async with session.post(address, data=sent, headers={"Origin": origin}, allow_redirects=False) as answer:
        expect(303, answer.status, await answer.text())
    times.append(perf_counter() - begun)


def expect(status: int, found: int, text: str) -> None:
    if found != status:
        raise SystemExit(f"found the status {found}, expected {status}: {text[:200]}")


async def measure(links: dict[str, str] | None, rater_count: int) -> list[float]:
    times: list[float] = []

    async def rate(rater: int) -> None:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            if links is None:
                for _ in range(SAVES // rater_count):
                    await save_bare(session, times)
                return
            link = links[f"r{rater}"]
            async with session.get(link) as page:
                await page.read()
            for _ in range(SAVES // rater_count):
                await save_ours(session, urljoin(link, "/").rstrip("/"), times)

    await asyncio.gather(*(rate(rater) for rater in range(rater_count)))
    return times


def lake_of(folder: Path) -> Lake:
    lake = make_lake(folder)
    write_scores(lake, "run-1", TONE, [{"case_id": f"c{place}", "scores": {"tone": 1}} for place in range(SAVES + 200)])
    text = "The order has left the house and arrives on Monday. " * 30

    def tell(connection: Any, _version: int) -> None:
        connection.execute("update outputs set prompt = ?, output = ?", [text, text])

    commit(lake, "texts", tell)
    return lake


def main() -> None:
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        for rater_count in (1, 20, 100):
            folder = Path(name) / str(rater_count)
            folder.mkdir()
            names = ",".join(f"r{rater}" for rater in range(rater_count))
            with rating_server(lake_of(folder), "--n", "5000", "--overlap", "1", raters=names) as server:
                ours = asyncio.run(measure(server.links, rater_count))
                memory = psutil.Process(server.process.pid).memory_info().rss / 1e6
            with bare_server(folder):
                wait_for_bare()
                bare = asyncio.run(measure(None, rater_count))
            ratios.append(statistics.median(ours) / statistics.median(bare))
            row = {"raters": rater_count, "p50_ms": ms(ours, 50), "bare_p50_ms": ms(bare, 50), "p99_ms": ms(ours, 99)}
            row |= {"bare_p99_ms": ms(bare, 99), "memory_mb": round(memory), "load": os.getloadavg()[0]}
            print(json.dumps(row))
    print(f"largest ratio of medians: {max(ratios):.2f}")


def wait_for_bare() -> None:
    import socket
    import time

    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", BARE_PORT)) == 0:
                return
        time.sleep(0.05)


def ms(times: list[float], percent: int) -> float:
    return round(1000 * statistics.quantiles(times, n=100)[percent - 1], 2)


if __name__ == "__main__":
    main()
