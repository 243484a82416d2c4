"""The command `gradebook people rate` as a process: killed, it loses no acknowledged rating."""

import signal
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from http.cookiejar import CookieJar
from pathlib import Path
from threading import Timer
from urllib.parse import urlencode, urljoin

import numpy as np
import pytest

from gradebook.tasks.lake.connections import connect
from tests.support.nightly import matrix
from tests.support.rating_server import forked_server, rating_server
from tests.support.served_ratings import rated_run

RATED = "select rater, output_id, level_id from ratings order by rated_at"


def rate(opener: urllib.request.OpenerDirector, link: str, count: int) -> None:
    """Submit sheets; returns when the last one is acknowledged."""
    origin = urljoin(link, "/").rstrip("/")
    for _ in range(count):
        sheet = opener.open(origin).url
        sent = urlencode({"version": 0, "action": "submit", "level.tone": "good"}).encode()
        opener.open(urllib.request.Request(sheet, sent, {"Origin": origin})).read()


def visitor(link: str) -> urllib.request.OpenerDirector:
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar()), urllib.request.ProxyHandler({})
    )
    opener.open(link).read()
    return opener


@pytest.mark.nightly
def test_a_killed_server_loses_no_acknowledged_rating_and_goes_on(tmp_path: Path):
    lake = rated_run(tmp_path)
    with rating_server(lake) as server:
        rate(visitor(server.links["anna"]), server.links["anna"], 3)
        server.process.send_signal(signal.SIGKILL)
    with connect(lake, read_only=True) as connection:
        assert connection.execute(RATED).fetchall() == []  # killed before they moved to the lake
    with rating_server(lake) as server:
        opener = visitor(server.links["anna"])
        assert opener.open(urljoin(server.links["anna"], "/")).url.endswith("/sheet/4")
        rate(opener, server.links["anna"], 1)
        server.process.send_signal(signal.SIGINT)
        _, said = server.process.communicate(timeout=60)
        assert server.process.returncode == 0
        assert "all ratings are in the lake" in said
    with connect(lake, read_only=True) as connection:
        assert [row[0] for row in connection.execute(RATED).fetchall()] == ["anna"] * 4


@pytest.mark.nightly
def test_no_acknowledged_rating_is_lost_in_fifty_kills_during_saves(tmp_path: Path):
    lake, rng = rated_run(tmp_path), np.random.default_rng(7)
    names = [f"r{number:02}" for number in range(50)]
    acknowledged = dict.fromkeys(names, 0)
    for name in names:
        with forked_server(lake, tmp_path, "--overlap", "50", raters=",".join(names)) as (server, links):
            opener, before = visitor(links[name]), rng.integers(1, 9)
            kill = Timer(rng.uniform(0.0, 0.03), server.kill)  # while one of the next saves is on its way
            with suppress(OSError, HTTPException):  # the server is gone, perhaps within an answer
                while acknowledged[name] < 10:
                    rate(opener, links[name], 1)
                    acknowledged[name] += 1
                    if acknowledged[name] == before:
                        kill.start()
            kill.join()
    with rating_server(lake, "--overlap", "50", raters=",".join(names)) as server:
        visitor(server.links[names[0]])  # it serves: an earlier signal is lost where the caller ignores SIGINT
        server.process.send_signal(signal.SIGINT)
        server.process.communicate(timeout=60)
    with connect(lake, read_only=True) as connection:
        stored = connection.execute("select rater, count(*), count(distinct output_id) from ratings group by rater")
        counts = {rater: (count, output_count) for rater, count, output_count in stored.fetchall()}
    for name, count in acknowledged.items():
        # A save that was on disk when the kill came may not have been acknowledged any more.
        assert counts[name][0] == counts[name][1] in (count, count + 1), name


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "words"),
    [
        *matrix(
            [
                (["--host", "0.0.0.0"], "--trust-host NAME"),
                (["--raters", "anna,anna"], "each once"),
                (["--queue", "gates"], "no gate failed"),
                (["--show-judge", "--pairs"], "--show-judge: found --pairs"),
            ]
        ),
        (["--criterion", "tune"], "expected one of tone"),
    ],
)
def test_what_can_not_be_served_ends_with_2_and_the_way_out(tmp_path: Path, gradebook, options: list[str], words: str):
    lake = rated_run(tmp_path)
    finished = gradebook("people", "rate", "--lake", f"sqlite:{lake.address}", *options)
    assert finished.code == 2
    assert words in " ".join(finished.err.split())
