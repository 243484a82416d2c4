"""The home page of a lake in a browser: its filters, by keyboard and by its address."""

import pytest

from tests.support.chromium import Visit, Visiting
from tests.support.page_runs import Reported

pytestmark = pytest.mark.browser
SHOWN = (
    "() => [...document.querySelectorAll('#run-list tbody:not([hidden]) a[href^=runs]')].map((link) => link.innerText)"
)


def count_told(seen: Visit) -> str:
    return seen.page.locator("#run-filters output").inner_text()


def test_a_search_leaves_the_runs_that_it_finds_and_counts_them(visit: Visiting, reported: Reported):
    with visit(reported.pages["home"]) as seen:
        assert count_told(seen) == "3 of 3 shown"
        seen.page.get_by_label("Search").press_sequentially("LATER.jsonl")
        assert (seen.ask(SHOWN), count_told(seen)) == (["later"], "1 of 3 shown")
        assert seen.page.url.endswith("#runs?q=LATER.jsonl")


def test_a_choice_is_made_by_keyboard_and_taken_back(visit: Visiting, reported: Reported):
    with visit(reported.pages["home"]) as seen:
        seen.page.get_by_role("combobox", name="Rubric").focus()
        seen.page.keyboard.type("unrated")
        assert seen.ask(SHOWN) == ["unrated"]
        seen.page.keyboard.press("Home")
        assert count_told(seen) == "3 of 3 shown" and "#" not in seen.page.url


def test_an_address_brings_its_filters_along(visit: Visiting, reported: Reported):
    with visit(reported.pages["home"], fragment="#runs?q=demo&rubric=support_replies") as seen:
        assert seen.ask(SHOWN) == ["demo"]
        assert seen.page.get_by_label("Search").input_value() == "demo"


def test_a_report_is_a_click_away(visit: Visiting, reported: Reported):
    with visit(reported.pages["home"]) as seen:
        target = seen.page.get_by_role("link", name="demo", exact=True).get_attribute("href")
    assert (reported.pages["home"].parent / target).read_bytes() == reported.pages["demo"].read_bytes()
