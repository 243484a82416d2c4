"""The pages of `gradebook view` in a browser: alive while a run is, hostile texts, and what axe finds."""

import json
import shlex
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from gradebook.tasks.lake.address import find_lake
from tests.integration.browser.test_hostile import STIR
from tests.support.chromium import WATCH
from tests.support.forked import Forked
from tests.support.hostile_run import TEXTS, write_hostile_run
from tests.support.loopback_judge import LoopbackJudge
from tests.support.viewed import view_server

pytestmark = pytest.mark.browser
OUTPUTS = 60
RUN = "/runs/hostile"
SECTIONS = ("scores", "criteria", "spread", "people", "trust", "examples")
PAGES = (
    "/",
    f"{RUN}",
    f"{RUN}/cases",
    *(f"{RUN}/sections/{name}" for name in SECTIONS),
    f"{RUN}/cases",
    f"{RUN}/cases?grid=criteria",
    "/rubrics",
    "/rubrics/hostile",
    "/people",
    "/sql?q=from+runs",
    f"/compare?a=hostile&b={TEXTS[0]}",
    "/runs/no",
)
RUBRIC = {
    "id": "watched",
    "version": "1.0.0",
    "criteria": [{"id": "tone", "description": "Is it kind?", "method": {"type": "judge"}}],
}
RUBRIC["criteria"][0]["levels"] = [{"id": "bad", "score": 0}, {"id": "good", "score": 1}]


@pytest.fixture(scope="module")
def folder(program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the lake of the hostile run."""
    folder = tmp_path_factory.mktemp("view") / "hostile"
    write_hostile_run(folder)
    return folder


@pytest.fixture(scope="module")
def link(folder: Path) -> Iterator[str]:
    with view_server(find_lake(f"sqlite:{folder / 'lake' / 'catalog.sqlite'}")) as link:
        yield link


@pytest.fixture
def page(browser: Browser, link: str) -> Iterator[Page]:
    """Home page. What it asks of other hosts is refused; `complaints` lists this, errors and dialogs."""
    context = browser.new_context()
    context.add_init_script(WATCH)
    page = context.new_page()
    page.complaints = []

    def answer(route: Route) -> None:
        if urlsplit(route.request.url).netloc == urlsplit(link).netloc:
            route.continue_()
        else:
            page.complaints.append(f"asked for {route.request.url[:200]}")
            route.abort()

    context.route("**/*", answer)
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (page.complaints.append(dialog.message), dialog.dismiss()))
    page.goto(link)
    yield page
    context.close()


@pytest.mark.nightly
@pytest.mark.parametrize("address", PAGES)
def test_hostile_texts_run_nothing_and_no_page_is_out_of_reach(page: Page, link: str, address: str):
    for scheme, width in product(("light", "dark"), (360, 1280, 3840)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(link.partition("/t/")[0] + address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        violations = Axe().run(page, options={"resultTypes": ["violations"]})["violations"]
        assert [(rule["id"], rule["nodes"][0]["html"][:300]) for rule in violations] == []
    page.evaluate(STIR)
    assert page.evaluate("typeof window.canary") == "undefined"
    assert page.evaluate("window.violations") == []
    assert page.complaints == []


def test_the_list_of_runs_is_searched_as_one_types(page: Page):
    runs = page.locator("#run-list tbody tr")
    expect(runs).to_have_count(1)
    page.fill("input[name=q]", "no such run")
    expect(page.locator("#run-part [role=status]")).to_have_text("0 runs")
    page.fill("input[name=q]", "HOSTILE")
    expect(runs).to_have_count(1)
    assert "q=HOSTILE" in page.url
    assert page.complaints == []


@pytest.mark.nightly
def test_a_run_is_watched_from_start_to_end_killed_and_resumed(page: Page, folder: Path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    lines = [json.dumps({"case_id": f"c{case}", "model": "m", "output": f"answer {case}"}) for case in range(OUTPUTS)]
    (folder / "watched.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "watched.yaml").write_text(yaml.safe_dump(RUBRIC), encoding="utf-8")
    page.evaluate("window.isSamePage = true")
    with LoopbackJudge(latency_s=0.05) as judge:
        judge.held_after = 20
        (folder / "judge.yaml").write_text(
            f"model: m\nbase_url: {judge.base_url}\nmax_in_flight: 2\nprices: {{input_usd: 1, output_usd: 2}}\n",
            encoding="utf-8",
        )
        words = [
            "evaluate",
            "watched.jsonl",
            "--rubric",
            "watched.yaml",
            "--judge",
            "judge.yaml",
            "--run-id",
            "watched",
        ]
        lake = ["--lake", f"sqlite:{folder / 'lake' / 'catalog.sqlite'}"]
        first = Forked([*words, *lake], folder)
        row = page.locator("#progress tbody tr").first
        expect(row).to_contain_text("at work", timeout=60_000)
        expect(row.locator("progress")).to_have_attribute("value", "20", timeout=60_000)
        expect(row).to_contain_text("$0.0")
        first.kill()
        expect(row).to_contain_text("stopped", timeout=20_000)
        resume = page.locator("#progress code").inner_text()
        judge.held_after = None
        second = Forked(shlex.split(resume.partition(" && gradebook ")[2]), folder)
        expect(row).to_contain_text("at work", timeout=60_000)
        expect(page.locator("#run-list")).to_contain_text("watched 1.0.0", timeout=90_000)
        expect(page.locator("#progress")).to_have_text("No run is in progress.", timeout=60_000)
        code, _, errors = second.wait()
        assert code in (0, 1), errors
    assert page.evaluate("window.isSamePage") is True
    page.click("#run-list >> text=watched >> nth=0")
    assert page.complaints == []


@pytest.mark.nightly
def test_a_page_of_a_run_in_progress_becomes_the_page_of_its_verdict(page: Page, folder: Path, monkeypatch, link: str):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    rows = [json.dumps({"case_id": f"c{case}", "model": "m", "output": f"reply {case}"}) for case in range(5)]
    (folder / "own.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (folder / "own.yaml").write_text(yaml.safe_dump(RUBRIC | {"id": "own"}), encoding="utf-8")
    with LoopbackJudge() as judge:
        judge.is_held = lambda _body: not page.url.endswith("/runs/own")
        (folder / "own_judge.yaml").write_text(f"model: m\nbase_url: {judge.base_url}\n", encoding="utf-8")
        words = ["evaluate", "own.jsonl", "--rubric", "own.yaml", "--judge", "own_judge.yaml", "--run-id", "own"]
        run = Forked([*words, "--lake", f"sqlite:{folder / 'lake' / 'catalog.sqlite'}"], folder)
        page.locator("#progress td.run", has_text="own").wait_for(timeout=60_000)
        page.goto(link.partition("/t/")[0] + "/runs/own")
        expect(page.locator("h2#models-heading")).to_be_visible(timeout=90_000)
        run.wait()
    assert page.complaints == []


def test_two_answers_are_chosen_and_an_origin_is_opened_in_place(page: Page, link: str):
    page.goto(f"{link.partition('/t/')[0]}{RUN}/cases")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.locator("details.whys > summary").first.click()
    page.locator("details.why > summary").first.click()
    expect(page.locator("details.why dt").first).to_have_text("verdict")
    chosen = page.locator("select[name=b]")
    if chosen.count():
        last = chosen.locator("option").last
        chosen.select_option(last.get_attribute("value"))
        expect(page.locator(".sides h3").last).to_contain_text(last.inner_text())
        assert "&b=" in page.url
    assert page.complaints == []
