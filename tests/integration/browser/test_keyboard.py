"""The pages by keyboard alone: a skip link, a visible focus everywhere and no trap; the keys of grids and cases."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.chromium import Visiting
from tests.support.page_runs import Reported
from tests.support.viewed import view_server

pytestmark = pytest.mark.browser
RUN = "/runs/later"
ADDRESSES = (
    "/",
    RUN,
    f"{RUN}/sections/criteria",
    f"{RUN}/sections/people",
    f"{RUN}/cases",
    f"{RUN}/cases/c34",
    "/compare?a=demo&b=later",
    "/rubrics",
    "/rubrics/support_replies",
    "/people?run=later",
    "/sql",
)
MOST_STOPS = 400  # of a page
# The focused element, by its place among all, and what is wrong with it; nothing where the page's end is reached.
STOP = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const shown = at.closest(".level:not(td)") ?? at;  // a rating page frames the whole level
  const style = getComputedStyle(shown), box = shown.getBoundingClientRect();
  const faults = [];
  if (!at.matches(":focus-visible")) faults.push("is not shown as focused");
  if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) faults.push("has no outline");
  if (!box.width || !box.height) faults.push("has no size");
  const isBeside = box.right <= 0 || box.left >= innerWidth;
  if (isBeside || box.bottom <= 0 || box.top >= innerHeight) faults.push("is off the screen");
  return [[...document.querySelectorAll("*")].indexOf(at), faults, at.outerHTML.slice(0, 150)];
}"""


@pytest.fixture(scope="module")
def link(reported: Reported) -> Iterator[str]:
    with view_server(reported.lake) as link:
        yield link


@pytest.fixture(scope="module")
def page(browser: Browser, link: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(link)
    yield page
    context.close()


def walk(page: Page) -> None:
    """Tab through a page: each stop once and in view, and the end is reached."""
    stops: list[int] = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop is None or [stop[0]] == stops[:1]:  # the browser's own controls, or the first stop again
            break
        place, faults, html = stop
        assert faults == [], html
        assert place not in stops, f"a trap at {html}"
        stops.append(place)
    else:
        pytest.fail(f"no end after {MOST_STOPS} stops")
    assert len(stops) > 3


@pytest.mark.nightly
@pytest.mark.parametrize("address", ADDRESSES)
def test_every_stop_of_a_page_is_seen_and_none_is_a_trap(page: Page, link: str, address: str):
    page.goto(link.partition("/t/")[0] + address)
    walk(page)


@pytest.mark.nightly
def test_every_stop_of_a_report_is_seen_and_none_is_a_trap(visit: Visiting, reported: Reported):
    with visit(reported.pages["later"]) as seen:
        walk(seen.page)


def test_a_case_is_opened_and_left_by_keyboard(page: Page, link: str):
    page.goto(link.partition("/t/")[0] + "/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")  # to the page, past its navigation
    assert page.url.endswith("#main")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    page.goto(link.partition("/t/")[0] + f"{RUN}/cases")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("#grid a.row").nth(1)
    expect(second).to_be_focused()
    name = second.inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(name, timeout=60_000)
    page.keyboard.press("Escape")
    expect(page.locator("#grid")).to_be_visible(timeout=60_000)
