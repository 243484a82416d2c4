"""Structure for assistive programs and links: ids, headings, names, and violations found by axe."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from axe_core_python.sync_playwright import Axe

from tests.support.chromium import Visit, Visiting
from tests.support.nightly import matrix
from tests.support.page_runs import PAGES, Reported

pytestmark = pytest.mark.browser
# The longest page in the dark, one of each other kind in the light: axe takes seconds for each.
VIEWS = [("later", 1280, "dark"), *((name, 1280, "light") for name in ("home", "rubric", "hostile"))]
VIEWS += matrix(
    [("later", 390, "light"), *((name, 1280, "light") for name in ("unrated", "hostile home", "hostile rubric"))]
)
SERIOUS = ("serious", "critical")
DOUBLE_IDS = """
() => {
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  return ids.filter((id, place) => ids.indexOf(id) !== place);
}
"""
# A link may pass a filter to its section: `#examples?criterion=tone`.
DEAD_LINKS = """
() => [...document.querySelectorAll('a[href^="#"]')].map((link) => link.getAttribute("href")).filter((address) =>
  !document.getElementById(decodeURIComponent(address.slice(1).split("?")[0])))
"""
SOURCES = "() => [...document.querySelectorAll(`[src], [action], link, [href]:not(a)`)].map((each) => each.outerHTML)"
LINKS = "() => [...new Set([...document.links].map((link) => link.href.split('#')[0]))]"
HEADINGS = "() => [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((each) => Number(each.tagName[1]))"
UNNAMED_CELLS = """
() => [...document.querySelectorAll("table")].filter((table) =>
  !table.caption?.textContent.trim() || [...table.querySelectorAll("th")].some((cell) => !cell.scope)
).map((table) => table.outerHTML.slice(0, 200))
"""
# Opens only a few examples: all have the same structure, and axe takes a second for each.
OPEN_MOST = """
() => [...document.querySelectorAll("details")].forEach((each) => {
  each.open = !each.closest(".example ~ .example ~ .example ~ .example");
})
"""


@pytest.mark.parametrize("name", PAGES)
def test_ids_are_unique(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    assert seen.ask(DOUBLE_IDS) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_link_has_a_target_on_the_page_or_a_file(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    assert seen.ask(DEAD_LINKS) == []
    links = seen.ask(LINKS)
    assert [link for link in links if not link.startswith("file:") or not path_of(link).is_file()] == []


def test_a_weak_spot_links_to_its_examples(visit: Visiting, reported: Reported):
    with visit(reported.pages["later"]) as seen:
        assert seen.ask("() => document.querySelectorAll('.spots a[href^=\"#o-\"]').length") > 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_no_other_file(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    assert seen.ask(SOURCES) == []


def path_of(address: str) -> Path:
    """File of an address that begins with `file:`."""
    return Path(unquote(urlsplit(address).path))


@pytest.mark.parametrize("name", PAGES)
def test_headings_have_one_title_and_skip_no_level(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    levels = seen.ask(HEADINGS)
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))


@pytest.mark.parametrize("name", PAGES)
def test_every_table_has_a_caption_and_scoped_headings(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    assert seen.ask(UNNAMED_CELLS) == []


@pytest.mark.parametrize(("name", "width", "scheme"), VIEWS)
def test_axe_finds_nothing_serious(visit: Visiting, reported: Reported, name: str, width: int, scheme: str):
    with visit(reported.pages[name], width=width, scheme=scheme) as seen:
        seen.ask(OPEN_MOST)
        assert violations_in(Axe().run(seen.page, options={"resultTypes": ["violations"]})) == []


def violations_in(found: dict[str, Any]) -> list[str]:
    """Serious and critical violations found by axe, one line per rule: count, first place and reason."""
    return [
        f"{rule['id']} ({rule['impact']}, {len(rule['nodes'])} times): {rule['help']}; "
        f"first {rule['nodes'][0]['target']} {rule['nodes'][0]['html'][:200]}: {rule['nodes'][0]['failureSummary']}"
        for rule in found["violations"]
        if rule["impact"] in SERIOUS
    ]
