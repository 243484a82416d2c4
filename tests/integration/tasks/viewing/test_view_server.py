"""The server of a lake's pages: who is let in, answers to strange addresses, and that nothing stored is stale."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from starlette.testclient import TestClient

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, latest_version
from gradebook.tasks.published.status import UnpublishedRun
from gradebook.tasks.system.listeners import Tokens
from gradebook.tasks.viewing import progress
from gradebook.tasks.viewing.home import WIDTH, Filters, _trend
from gradebook.tasks.viewing.progress import FailureReader, ProgressReader, ReplyFailures, duration_words
from gradebook.tasks.viewing.server import view_app
from tests.support.law_over import law_over
from tests.support.served_ratings import RUN, rated_run

HOST = "127.0.0.1:8000"
STRANGE = ("..%5c..", "..%2f..%2fetc", "%00", "a'b", "' or 1=1 --", "%F0%9F%8E%93", "x" * 3000, "<script>")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return rated_run(tmp_path_factory.mktemp("view"))


@pytest.fixture(scope="module")
def client(lake: Lake) -> Iterator[TestClient]:
    """Browser that has opened the link."""
    tokens = Tokens()
    with TestClient(view_app(lake, tokens, (HOST,)), base_url=f"http://{HOST}") as client:
        assert client.get(f"/t/{tokens.issue('reader')}").status_code == 200
        yield client


def test_without_the_link_no_page_is_read(lake: Lake):
    with TestClient(view_app(lake, Tokens(), (HOST,)), base_url=f"http://{HOST}") as stranger:
        addresses = ("/", f"/runs/{RUN}", "/alive", "/static/view.js", "/t/guess")
        assert [stranger.get(address).status_code for address in addresses] == [403] * 5


@law_over("name", STRANGE)
def test_a_run_that_is_not_there_is_a_page_that_says_so(client: TestClient, name: str):
    pages = ("/runs/{}", "/runs/{}/report", f"/runs/{RUN}/sections/{{}}", f"/compare?a={RUN}&b={{}}", "/{}")
    answers = [client.get(page.format(name)) for page in pages]
    assert [answer.status_code for answer in answers] == [404] * len(pages)
    assert not any("<script>" in answer.text for answer in answers)


def test_pages_are_only_read_and_the_policy_lets_no_other_origin_in(client: TestClient):
    assert client.post("/", headers={"Origin": f"http://{HOST}"}).status_code == 405
    assert client.get("/", headers={"Host": "evil.example:8000"}).status_code == 421
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe-inline'; connect" in policy and "http" not in policy


def test_a_page_is_never_older_than_the_lake(client: TestClient, lake: Lake):
    assert "renamed" not in client.get("/").text
    version = latest_version(lake)
    commit(lake, "a test", lambda connection, _version: connection.execute("update runs set dataset = 'renamed'"))
    assert latest_version(lake) > version
    assert "renamed" in client.get("/").text


def test_filters_of_an_address_are_bounded():
    assert Filters.read({"page": "-1"}).page == Filters.read({"page": "9" * 99}).page == Filters.read({}).page == 1
    assert Filters.read({"q": "a&b", "page": "3"}).address(2) == "/?q=a%26b&page=2"


def test_a_trend_begins_with_the_last_change_of_rubric_judge_or_data():
    rows = [
        {"mean": mean, "changed": changed}
        for mean, changed in ((0.1, None), (0.5, "other cases"), (0.6, None), (0.8, None))
    ]
    trend = _trend("m", rows)
    assert (trend.mean, trend.change) == ("0.800", "+0.200")
    assert len(trend.points.split()) == 3
    assert trend.points.split()[-1].startswith(f"{WIDTH - 3}")  # of three points the last is at the right edge


def test_the_pace_of_a_run_is_of_the_last_minute(monkeypatch, tmp_path: Path):
    begin, answered = datetime(2026, 11, 30, tzinfo=UTC), [0]
    at = [begin]

    def read_runs(_lake: Lake, now: datetime) -> list[UnpublishedRun]:
        run = UnpublishedRun("r", True, "score", 0.0, answered[0], 100, 0.0, 0.0, 1.0, begin, 0.0, 0.0, None, "")
        return [run]

    monkeypatch.setattr(progress, "unpublished_runs", read_runs)
    reader = ProgressReader(find_lake(f"sqlite:{tmp_path}/catalog.sqlite"), lambda: at[0])
    paces = []
    for second, count in ((0, 0), (30, 10), (60, 40), (90, 40)):
        at[0], answered[0] = begin + timedelta(seconds=second), count
        (line,) = reader.read()
        paces.append((line.a_minute, line.left))
    # 10 in 30 s: 20 a minute, 90 open: 270 s; 40 in 60 s: 60 open: 90 s; from 10 to 40 in the last 60 s: 60 open: 120 s
    assert paces == [(None, ""), (20.0, "4 min"), (40.0, "2 min"), (30.0, "2 min")]
    assert [duration_words(seconds) for seconds in (0.2, 59, 3600, 7500)] == ["1 s", "59 s", "1 h 0 min", "2 h 5 min"]


def test_replies_without_a_level_are_counted_once_while_a_journal_grows(tmp_path: Path):
    def line(status: str, reply: str) -> bytes:
        return orjson.dumps({"status": status, "rationale": None, "reply": reply}) + b"\n"

    reader, journal = FailureReader(tmp_path, "a[1]"), tmp_path / "a[1].7.x.jsonl"
    assert reader.read() == ReplyFailures()
    told = line("parse_error", 'I said "status":"scored", did I not?')
    journal.write_bytes(line("scored", "good") + told + line("refused", "no")[:9])
    assert reader.read() == ReplyFailures((("parse_error", 1),), 'I said "status":"scored", did I not?')
    journal.write_bytes(line("scored", "good") + told + line("refused", "no") + told)
    assert reader.read().kinds == (("parse_error", 2), ("refused", 1))
