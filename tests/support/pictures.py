"""Pictures of the README and the docs: pages of the demo's run, in chromium. `make pictures` writes them anew."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page

from gradebook.tasks.lake.address import Lake, find_lake
from tests.support.chromium import find_chromium, running_chromium, visited
from tests.support.rating_server import rating_server

FOLDER = Path(__file__).parents[2] / "docs" / "images"
SHOWN_LAKE = "demo-lake/catalog.sqlite"  # in commands on the page, in place of a temporary folder's
CASE = "c34"  # the judge marks words in both answers to it


def write_pictures(folder: Path) -> None:
    """Write each picture into the folder."""
    program = find_chromium()
    if program is None:
        sys.exit("pictures: found no chromium on the path, expected one (apt-get install chromium)")
    with TemporaryDirectory() as temporary, running_chromium(program) as browser:
        lake = find_lake(f"sqlite:{temporary}/lake/catalog.sqlite")
        command = [sys.executable, "-m", "gradebook", "demo", "--lake", f"sqlite:{lake.address}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (report,) = lake.root.glob("runs/*/report.html")
        page = report.read_text(encoding="utf-8").replace(lake.address, SHOWN_LAKE)
        report.write_text(page, encoding="utf-8")
        _draw_report(browser, report, folder)
        _draw_rating(browser, lake, folder)


def _draw_report(browser: Browser, report: Path, folder: Path) -> None:
    with visited(browser, report) as visit:
        visit.page.set_viewport_size({"width": 1280, "height": 1740})
        visit.page.screenshot(path=folder / "report.png")
    with visited(browser, report, scheme="dark", fragment="#spread") as visit:
        visit.page.set_viewport_size({"width": 1280, "height": 840})
        _scroll_to(visit.page, "#spread")
        visit.page.screenshot(path=folder / "report-spread.png")
    with visited(browser, report) as visit:
        visit.page.set_viewport_size({"width": 1280, "height": 1000})
        example = visit.page.locator("#examples details", has_text=CASE).first
        example.locator("summary").first.click()
        example.evaluate("shown => scrollTo(0, shown.getBoundingClientRect().top + scrollY - 100)")
        visit.page.screenshot(path=folder / "report-example.png")


def _scroll_to(page: Page, selector: str) -> None:
    page.locator(selector).first.scroll_into_view_if_needed()
    page.evaluate("selector => document.querySelector(selector).scrollIntoView()", selector)


def _draw_rating(browser: Browser, lake: Lake, folder: Path) -> None:
    for name, options in (("rating", ()), ("rating-pairs", ("--pairs",))):
        with rating_server(lake, *options, raters="anna") as server:
            page = browser.new_context(viewport={"width": 1200, "height": 780}).new_page()
            page.goto(server.links["anna"])
            page.click("text=Start")
            page.wait_for_selector("#sheet")
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=folder / f"{name}.png")
            page.context.close()


if __name__ == "__main__":
    write_pictures(FOLDER)
