"""Examples in a browser: filters by text, kind, criterion, level and model, and addresses."""

import pytest
from playwright.sync_api import Locator

from tests.support.chromium import Visit, Visiting
from tests.support.page_runs import Reported

pytestmark = pytest.mark.browser
SHOWN = "() => [...document.querySelectorAll('.example:not([hidden])')].map((each) => each.id)"
HOLDING = """
(word) => [...document.querySelectorAll(".example")].filter((each) => each.textContent.toLowerCase().includes(word))
  .map((each) => each.id)
"""
JUDGED = """
(selector) => [...document.querySelectorAll(".example")].filter((each) => each.querySelector(selector))
  .map((each) => each.id)
"""


def field(seen: Visit, label: str) -> Locator:
    kind = "searchbox" if label == "Text" else "combobox"
    return seen.page.get_by_role("search", name="Examples").get_by_role(kind, name=label, exact=True)


def wait_until_shown(seen: Visit, address: str) -> list[str]:
    """Wait for the address, which follows typed text with a short delay; returns the ids of the examples shown."""
    seen.page.wait_for_function("(address) => location.hash === address", arg=address)
    shown = seen.ask(SHOWN)
    words = seen.page.locator("#examples-count").inner_text()
    assert words == f"{len(shown)} of {seen.page.locator('.example').count()} shown"
    return shown


def test_a_search_shows_and_counts_the_examples_with_a_word(visit: Visiting, reported: Reported):
    with visit(reported.pages["demo"]) as seen:
        field(seen, "Text").press_sequentially("Ridgeline")
        assert wait_until_shown(seen, "#examples?q=Ridgeline") == seen.ask(HOLDING, "ridgeline") != []


def test_a_criterion_and_its_level_are_chosen_by_keyboard(visit: Visiting, reported: Reported):
    with visit(reported.pages["demo"]) as seen:
        field(seen, "Criterion").focus()
        seen.page.keyboard.type("Tone")
        seen.page.keyboard.press("Tab")
        seen.page.keyboard.type("bad")
        shown = wait_until_shown(seen, "#examples?criterion=tone&level=is+bad")
        assert shown == seen.ask(JUDGED, "tr[data-criterion=tone][data-level=bad]") != []


def test_an_address_with_filters_restores_them(visit: Visiting, reported: Reported):
    fragment = "#examples?criterion=tone&level=is+bad&q=refund"
    with visit(reported.pages["demo"], fragment=fragment) as seen:
        shown = wait_until_shown(seen, fragment)
        assert set(shown) <= set(seen.ask(HOLDING, "refund"))
        assert field(seen, "Criterion").input_value() == "tone" and field(seen, "Text").input_value() == "refund"


def test_show_all_removes_the_filters(visit: Visiting, reported: Reported):
    fragment = "#examples?q=nothing-of-this-name"
    with visit(reported.pages["demo"], fragment=fragment) as seen:
        assert wait_until_shown(seen, fragment) == []
        seen.page.get_by_role("button", name="Show all").press("Enter")
        assert len(seen.ask(SHOWN)) == seen.page.locator(".example").count() > 0


@pytest.mark.parametrize("has_script", [True, False])
def test_an_address_of_an_output_opens_it(visit: Visiting, reported: Reported, has_script: bool):
    with visit(reported.pages["demo"]) as seen:
        anchor = seen.ask(SHOWN)[-1]
    with visit(reported.pages["demo"], fragment=f"#{anchor}", has_script=has_script) as seen:
        example = seen.page.locator(f"#{anchor}")
        example.locator(".answer").first.wait_for(state="visible")
        top = seen.ask("(id) => document.getElementById(id).getBoundingClientRect().top", anchor)
        assert -1 <= top < 900
        assert seen.page.locator(".example[open]").count() <= 1


def test_a_link_to_a_hidden_output_removes_the_filter_and_opens_it(visit: Visiting, reported: Reported):
    fragment = "#examples?q=nothing-of-this-name"
    with visit(reported.pages["demo"], fragment=fragment) as seen:
        assert wait_until_shown(seen, fragment) == []
        anchor = seen.page.locator(".example").first.get_attribute("id")
        seen.ask("(id) => { location.hash = id; }", anchor)
        seen.page.wait_for_function("(id) => document.activeElement.parentElement.id === id", arg=anchor)
        assert seen.page.locator(f"#{anchor}[open]").is_visible()


@pytest.mark.nightly
def test_an_example_opens_and_closes_by_keyboard(visit: Visiting, reported: Reported):
    with visit(reported.pages["demo"]) as seen:
        summary = seen.page.locator(".example > summary").first
        summary.press("Enter")
        assert seen.page.locator(".example").first.get_attribute("open") is not None
        summary.press("Enter")
        assert seen.page.locator(".example").first.get_attribute("open") is None
