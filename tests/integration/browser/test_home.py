"""Home page of a lake in a browser: filters by keyboard and by address."""

import pytest

from tests.support.chromium import Visit, Visiting
from tests.support.page_runs import Reported

pytestmark = pytest.mark.browser
SHOWN = (
    "() => [...document.querySelectorAll('#run-list tbody:not([hidden]) a[href^=runs]')].map((link) => link.innerText)"
)


def count_words(seen: Visit) -> str:
    return seen.page.locator("#run-filters output").inner_text()


def test_a_search_shows_and_counts_the_runs_it_finds(visit: Visiting, reported: Reported):
    with visit(reported.pages["home"]) as seen:
        assert count_words(seen) == "3 of 3 shown"
        seen.page.get_by_label("Search").press_sequentially("LATER.jsonl")
        assert (seen.ask(SHOWN), count_words(seen)) == (["later"], "1 of 3 shown")
        assert seen.page.url.endswith("#runs?q=LATER.jsonl")


def test_a_filter_is_set_and_removed_by_keyboard(visit: Visiting, reported: Reported):
    with visit(reported.pages["home"]) as seen:
        seen.page.get_by_role("combobox", name="Rubric").focus()
        seen.page.keyboard.type("unrated")
        assert seen.ask(SHOWN) == ["unrated"]
        seen.page.keyboard.press("Home")
        assert count_words(seen) == "3 of 3 shown" and "#" not in seen.page.url


def test_an_address_restores_the_filters_of_the_home_page(visit: Visiting, reported: Reported):
    with visit(reported.pages["home"], fragment="#runs?q=demo&rubric=support_replies") as seen:
        assert seen.ask(SHOWN) == ["demo"]
        assert seen.page.get_by_label("Search").input_value() == "demo"


@pytest.mark.nightly
def test_a_run_links_to_its_report_and_that_to_its_rubric(visit: Visiting, reported: Reported):
    home = reported.pages["home"]
    with visit(home) as seen:
        report = home.parent / str(seen.page.get_by_role("link", name="demo", exact=True).get_attribute("href"))
    with visit(report) as seen:
        assert "demo" in seen.page.title()
        rubric = (report.parent / str(seen.page.locator("dl a[href*=rubrics]").get_attribute("href"))).resolve()
    with visit(rubric) as seen:
        assert "support_replies" in seen.page.title()
