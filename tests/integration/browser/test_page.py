"""Page opened from disk: no requests, drawn pictures, no sideways scrolling, complete without its script."""

from collections.abc import Callable

import pytest

from tests.support.chromium import Visit, Visiting
from tests.support.nightly import matrix
from tests.support.page_runs import PAGES, Reported

pytestmark = pytest.mark.browser
WIDTHS = (320, 390, 1280, 3840)
OPEN_ALL = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"
EMPTY_PICTURES = """
() => [...document.querySelectorAll(".picture")].filter((picture) => {
  const box = picture.querySelector("svg")?.getBoundingClientRect();
  return !box || box.width < 100 || box.height < 20 || !picture.querySelector("[data-tip], .mark path, text");
}).map((picture) => picture.closest("figure")?.id)
"""
# Parts that have to be there without the script, each with whether it is shown.
CONTENTS = """
() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const found = [...document.querySelectorAll("main :is(h2, h3, table, figure, .picture svg, pre, details)")];
  return found.map((each) => [each.tagName + " " + each.id, each.getClientRects().length > 0]);
}
"""
LEFT_OUT_OF_PRINT = """
() => [...document.querySelectorAll("nav, .skip, .controls")].filter((each) => each.checkVisibility()).length
"""
A4_PIXELS = 703  # of the paper between its margins, at 96 to the inch
TOO_WIDE = """
() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return [];
  const wide = [...document.querySelectorAll("body *")].filter((each) => !each.closest(".scroll"));
  const beyond = wide.filter((each) => each.getBoundingClientRect().right > root.clientWidth + 1);
  return [`${root.scrollWidth} px`, ...beyond.slice(-3).map((each) => each.outerHTML.slice(0, 200))];
}
"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_makes_no_requests_and_has_no_errors(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    seen.ask(OPEN_ALL)
    seen.page.mouse.wheel(0, 100_000)
    assert seen.faults == []


@pytest.mark.parametrize("name", ["hostile", *matrix(["later", "home", "rubric"])])
def test_a_dark_page_makes_no_requests_and_has_no_errors(visit: Visiting, reported: Reported, name: str):
    with visit(reported.pages[name], scheme="dark") as seen:
        seen.ask(OPEN_ALL)
        seen.page.mouse.wheel(0, 100_000)
        assert seen.faults == []


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_has_a_size_and_marks(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    seen.ask(OPEN_ALL)
    assert seen.ask(EMPTY_PICTURES) == []


def test_the_demo_has_pictures(opened: Callable[[str], Visit]):
    assert opened("demo").page.locator(".picture svg").count() > 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_never_scrolls_sideways(visit: Visiting, reported: Reported, name: str):
    found = {}
    with visit(reported.pages[name]) as seen:
        for words, script in (("as it opens", "() => 0"), ("with all that opens", OPEN_ALL)):
            seen.ask(script)
            for width in WIDTHS:
                seen.page.set_viewport_size({"width": width, "height": 900})
                found[width, words] = seen.ask(TOO_WIDE)
    assert {view: wide for view, wide in found.items() if wide} == {}


@pytest.mark.parametrize("width", [390, 1280])
def test_the_layout_does_not_shift(visit: Visiting, reported: Reported, width: int):
    with visit(reported.pages["later"], width=width) as seen:
        seen.page.mouse.wheel(0, 5_000)
        seen.page.wait_for_function("() => scrollY > 0")
        assert seen.ask("() => window.shifts") == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_complete_without_its_script(
    visit: Visiting, opened: Callable[[str], Visit], reported: Reported, name: str
):
    scripted = opened(name).ask(CONTENTS)
    with visit(reported.pages[name], has_script=False) as seen:
        plain = seen.ask(CONTENTS)
    assert [each for each, is_shown in plain if not is_shown] == []
    assert [each for each, _ in plain] == [each for each, _ in scripted]


@pytest.mark.nightly
def test_the_dark_page_is_dark_on_a_screen_and_light_on_paper(visit: Visiting, reported: Reported):
    with visit(reported.pages["demo"], scheme="dark") as seen:
        dark = lightness_of_page(seen)
        seen.page.emulate_media(media="print")
        assert dark < 60 and lightness_of_page(seen) > 240


def lightness_of_page(seen: Visit) -> float:
    """Mean of red, green and blue of the page's background, 0 to 255."""
    colour = seen.ask("() => getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number)")
    return sum(colour[:3]) / 3


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["later", "hostile", "home"])
def test_a_page_prints(visit: Visiting, reported: Reported, name: str):
    with visit(reported.pages[name]) as seen:
        if name != "hostile":  # its heat map has seven models with names of any length
            seen.page.set_viewport_size({"width": A4_PIXELS, "height": 1000})
        seen.page.emulate_media(media="print")
        assert seen.ask(LEFT_OUT_OF_PRINT) == 0
        assert seen.ask(TOO_WIDE) == []
        paper = seen.page.pdf(format="A4")
    assert paper.startswith(b"%PDF") and len(paper) > 20_000
