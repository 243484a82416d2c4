"""Cases of a run: each filter against the outputs that it lets through, and hostile texts."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from starlette.testclient import TestClient

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.lake.rows import insert_rows
from gradebook.tasks.viewing.case import differing_words
from tests.support.hostile_run import write_hostile_run
from tests.support.law_over import law_over
from tests.support.reported_runs import publish_run
from tests.support.viewed import start_tags, viewer

CRITERIA = ({"id": "polite"}, {"id": "safe", "gate": True})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Run `a`: of 12 cases, good says yes in all, bad in c0 to c3. Run `b`: bad says yes in c0 to c5."""
    folder = tmp_path_factory.mktemp("cases")
    publish_run(folder, {"good": 12, "bad": 4}, CRITERIA)
    publish_run(folder, {"good": 12, "bad": 6}, CRITERIA, run_id="b")
    with viewer(find_lake(f"sqlite:{folder}/lake/catalog.sqlite")) as client:
        yield client


@law_over(
    ("values", "count"),
    [
        ("", "12 cases"),
        ("grid=criteria", "24 outputs"),
        ("grid=criteria&model=bad", "12 outputs"),
        ("grid=criteria&gate=1", "8 outputs"),  # bad fails the gate in 12 - 4 cases
        ("gate=1&model=good", "0 cases"),
        ("text=YES", "12 cases"),
        ("text=no%2C+7+of+bad", "1 case"),
        ("missing=1", "0 cases"),
        ("field=no_such&content=x", "0 cases"),
        ("page=99999999", "12 cases"),  # no page number: the first
    ],
)
def test_a_filter_lets_through_what_it_names(client: TestClient, values: str, count: str):
    page = client.get(f"/runs/a/cases?{values}")
    assert page.status_code == 200
    assert f"<output>{count}</output>" in page.text


def test_a_case_leads_to_its_neighbours_in_the_grid_that_led_to_it(client: TestClient):
    page = client.get("/runs/a/cases/c1?by_case=1&at=1").text
    assert "/runs/a/cases/c0?by_case=1&amp;at=0" in page
    assert "/runs/a/cases/c10?by_case=1&amp;at=2" in page  # by id, as text
    assert client.get("/runs/a/cases/none").status_code == 404


def test_a_case_says_where_each_verdict_comes_from(client: TestClient):
    page = client.get("/runs/a/cases/c5").text
    addresses = re.findall(r'<details class="why">.*?hx-get="([^"]+)"', page)
    assert len(addresses) == 4  # two models, two criteria
    for address in addresses:
        assert "rubric</dt>" in client.get(address.replace("&amp;", "&")).text
    assert client.get("/runs/a/why?output=none&criterion=polite").status_code == 404


def test_any_two_answers_to_a_case_are_compared_also_those_of_two_runs(client: TestClient):
    keys = re.findall(r'<option value="([ab]/[^"]+)"', client.get("/runs/b/cases/c5").text.partition("Answer B")[0])
    assert [key[0] for key in keys] == ["b", "b", "a", "a"]  # this run first
    page = client.get("/runs/b/cases/c5", params={"a": keys[1], "b": keys[2]}).text
    sides = page.partition('class="sides"')[2]
    assert re.findall(r"<h3>([AB]): <bdi>([^<]+)</bdi>", sides) == [("A", "good"), ("B", "bad in a")]
    differing = page.partition('id="differing"')[2]
    assert (
        re.findall(r"<td>(\w+)</td><td>(\w+)</td>", differing) == [("pass", "fail")] * 2
    )  # good is polite in run b, bad was not in run a
    assert "Their verdicts are the same." in client.get("/runs/b/cases/c5", params={"a": keys[1], "b": keys[3]}).text


def test_a_comparison_names_the_cases_that_changed_most_with_both_answers(client: TestClient):
    # bad says yes in c4 and c5 of run b alone
    for runs, heading in ((("a", "b"), "gained"), (("b", "a"), "lost")):
        page = client.get("/compare", params=dict(zip("ab", runs, strict=True))).text
        assert re.findall(r"<h3>Cases that (\w+) most</h3>", page) == [heading]
        links = dict(re.findall(r'<a href="([^"]+)">(c\d+)</a>', page))
        assert list(links.values()) == ["c4", "c5"]
        sides = client.get(next(iter(links)).replace("&amp;", "&")).text.partition('class="sides"')[2]
        assert re.findall(r"<h3>[AB]: <bdi>([^<]+)</bdi>", sides) == [f"bad in {runs[0]}", "bad"]


def test_cases_that_changed_are_those_with_another_level_in_the_run_named(client: TestClient):
    # bad says yes in c0 to c3 in run a, in c0 to c5 in run b: c4 and c5 changed.
    for criterion in ("", "polite"):
        page = client.get(f"/runs/b/cases?against=a&changed=1&criterion={criterion}").text
        assert "<output>2 cases</output>" in page
        assert page.count("▲") == 3  # two cells, and the legend


def test_words_that_differ_join_to_both_answers():
    first, second = "The parcel left on Monday.", "The parcel, we hope, left on Friday."
    pieces = differing_words(first, second)
    assert "".join(text for kind, text in pieces if kind != "added") == first
    assert "".join(text for kind, text in pieces if kind != "removed") == second
    assert ("removed", "Monday") in pieces


def test_a_chart_leads_to_the_cases_behind_each_mark_on_the_server_and_nowhere_in_a_file(client: TestClient):
    page = client.get("/runs/a/sections/spread").text
    links = dict(re.findall(r'<a href="/runs/a/cases\?([^"]+)".*?data-tip="([^"]+)"', page))
    link = next(link for link, tip in links.items() if tip.startswith("polite, bad: fail"))
    assert "(8 outputs)" in links[link]
    assert "<output>8 outputs</output>" in client.get(f"/runs/a/cases?{link.replace('&amp;', '&')}").text
    report = client.get("/runs/a/report").text
    assert "data-cases=" in report and "/cases?" not in report


def test_home_shows_the_last_night_the_checkpoints_and_the_cases_to_read(tmp_path: Path):
    publish_run(tmp_path, {"good": 12, "bad": 4}, CRITERIA, trigger="nightly", run_id="night")
    publish_run(tmp_path, {"good": 12}, CRITERIA, run_id="by-hand")
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    now = datetime(2026, 11, 30, tzinfo=UTC)
    shared = {"model": "m", "rubric_id": "replies", "rubric_version": "1.0.0", "run_id": "night", "decided_at": now}

    def decide(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        for name, status in (("1", "approved"), ("2", "undecided")):
            insert_rows(connection, "checkpoints", [shared | {"checkpoint": name, "status": status}])

    commit(lake, "decisions", decide)
    with viewer(lake) as client:
        page = client.get("/").text
        queue = page.partition('id="queue"')[2].partition('id="runs"')[0]
        links = re.findall(r'href="/runs/([^"]+)"', queue)
        assert links == ["night", "night/sections/cost", "night", "night"]  # of the night, two checkpoints
        assert "1 checkpoint undecided" in queue
        assert queue.index("m @ 2") < queue.index("m @ 1")
    publish_run(tmp_path, {"good": 12, "bad": 4}, CRITERIA, run_id="last")
    with viewer(lake) as client:
        assert '<a href="/runs/last/cases/c10"><bdi>c10</bdi></a>' in client.get("/").text  # bad says no in c4 to c11


def test_pages_lead_from_what_they_show_to_what_is_behind_it(client: TestClient):
    home, run = client.get("/").text, client.get("/runs/b").text
    assert home.count('class="trend"') == 2  # other answers to the same cases are comparable
    assert '<a href="/compare?a=a&amp;b=b">What changed</a>' in home or "/runs/b/sections/change" in home
    sections = set(re.findall(r'"/runs/b/sections/(\w+)"', run))
    assert "spread" in sections and not sections & {"agents", "guards", "outcomes"}  # empty ones
    assert re.search(r'"/runs/b/cases\?grid=criteria&(amp;)?model=bad"', client.get("/runs/b/sections/spread").text)
    assert 'href="/runs/a"' in client.get("/runs/b/sections/history").text
    rubrics = client.get("/rubrics").text
    assert re.findall(r'data-label="Runs">(?:<a[^>]*>)?(\d+)', rubrics) == ["2"]


@pytest.mark.nightly
def test_hostile_texts_stay_texts_in_the_grid_and_on_a_case(tmp_path: Path):
    write_hostile_run(tmp_path / "hostile")
    with viewer(find_lake(f"sqlite:{tmp_path}/hostile/lake/catalog.sqlite")) as client:
        for address in ("/runs/hostile/cases", "/runs/hostile/cases?grid=criteria"):
            page = client.get(address)
            assert page.status_code == 200
            _refuse_foreign_tags(page.text)
        case = next(part.split('"')[0] for part in page.text.split('class="row" href="')[1:]).replace("&amp;", "&")
        page = client.get(case)
        assert page.status_code == 200
        _refuse_foreign_tags(page.text)


def _refuse_foreign_tags(page: str) -> None:
    tags = start_tags(page)
    assert not {tag for tag, _ in tags} & {"iframe", "animate", "base", "plaintext", "i", "b", "object"}
    assert not [names for _, names in tags if any(name.startswith("on") or name == "autofocus" for name in names)]
    assert [tag for tag, _ in tags].count("script") == 3  # htmx, the report's and the view's
