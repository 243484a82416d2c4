"""The editor of `gradebook view --edit` in a browser: what axe finds; a rubric edited, tried and used by a night."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from tests.support.chromium import WATCH
from tests.support.forked import Forked
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import publish
from tests.support.samples import write_outputs, write_rubric

pytestmark = pytest.mark.browser
QUESTION = "Is the answer clear at first reading?"


@pytest.fixture(scope="module")
def folder(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder with a judged run, its rubric and a judge that answers."""
    folder = tmp_path_factory.mktemp("editor")
    with LoopbackJudge() as judge, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "k")
        prices = "prices: {input_usd: 1, output_usd: 2}\n"
        (folder / "judge.yaml").write_text(f"model: m\nbase_url: {judge.base_url}\n{prices}", encoding="utf-8")
        rubric = write_rubric(folder / "rubric.yaml")
        publish(write_outputs(folder / "outputs.jsonl", 12), rubric, judge=str(folder / "judge.yaml"), run_id="base")
        yield folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Link of a server with `--edit`."""
    lake = f"sqlite:{folder}/lake/catalog.sqlite"
    command = [sys.executable, "-m", "gradebook", "view", "--edit", "--judge", "judge.yaml", "--lake", lake]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            server.communicate()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Editor of the rubric's file. `complaints` lists errors."""
    context = browser.new_context()
    context.add_init_script(WATCH)
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(address)
    page.goto(f"{address.partition('/t/')[0]}/edit?file=rubric.yaml")
    yield page
    context.close()


def press(page: Page, name: str) -> None:
    """Press a button by the keyboard."""
    page.get_by_role("button", name=name).focus()
    page.keyboard.press("Enter")


@pytest.mark.nightly
def test_a_rubric_is_edited_tried_and_registered_by_the_keyboard_and_a_night_uses_it(page: Page, folder: Path):
    lake = f"sqlite:{folder}/lake/catalog.sqlite"
    text = page.locator("#text")
    text.focus()
    page.keyboard.press("Control+A")
    changed = (
        text.input_value().replace(QUESTION, "Is the reply clear?").replace("    weight: 1", "    weight: 1  # half", 1)
    )
    page.keyboard.insert_text(changed)
    expect(page.locator("#findings")).to_contain_text("expected a patch step, 1.0.1")
    press(page, "Set version 1.0.1")
    expect(text).to_have_value(changed.replace("1.0.0", "1.0.1"))
    page.get_by_label("Weight of clarity").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    page.keyboard.press("Tab")
    expect(text).to_have_value(changed.replace("1.0.0", "1.0.1").replace("weight: 1  # half", "weight: 3  # half"))
    press(page, "Set version 1.1.0")
    expect(page.locator("#findings")).to_contain_text("Version 1.1.0 fits these changes.")
    press(page, "Try ten cases")
    expect(page.locator("#trial tbody tr")).to_have_count(10, timeout=60_000)
    expect(page.locator("#trial")).to_contain_text("m gave 10 new replies on clarity")
    press(page, "Register as draft")
    expect(page.get_by_role("status").first).to_contain_text("Registered as a draft")
    press(page, "Activate 1.1.0")
    expect(page.locator("dl.facts")).to_contain_text("active")
    assert page.evaluate("window.violations") == []
    assert page.complaints == []
    suite = "{id: a, outputs: outputs.jsonl, rubric: short_answer, judge: judge.yaml}"
    (folder / "suites.yaml").write_text(f"suites: [{suite}]\n", encoding="utf-8")
    code, _, errors = Forked(["nightly", "suites.yaml", "--lake", lake], folder, OPENAI_API_KEY="k").wait()
    assert code in (0, 1), errors
    with connect(find_lake(lake), read_only=True) as connection:
        last = "select rubric_version from runs where status = 'published' order by version desc limit 1"
        assert connection.execute(last).fetchall() == [("1.1.0",)]


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_axe_finds_nothing_on_the_editor(page: Page, scheme: str, width: int):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#text").fill(page.locator("#text").input_value().replace("weight: 1", "weight: 2", 1))
    expect(page.get_by_role("button", name="Set version")).to_be_visible()
    press(page, "Try ten cases")
    expect(page.locator("#trial tbody tr")).to_have_count(10, timeout=60_000)
    press(page, "Estimate the price")
    expect(page.locator("#price p.line")).not_to_have_count(0, timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    violations = Axe().run(page, options={"resultTypes": ["violations"]})["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"][:300]) for rule in violations] == []
