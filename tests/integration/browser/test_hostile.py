"""Hostile texts on a page: shown as written, and never run."""

from collections.abc import Callable

import pytest

from tests.support.chromium import Visit, Visiting
from tests.support.hostile_run import LONG, RUNS, TEXTS
from tests.support.page_runs import HOSTILE, Reported

pytestmark = pytest.mark.browser
# Fires events on every element, so that an injected handler would run.
STIR = """
() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const each of document.querySelectorAll("main *")) {
    for (const kind of ["pointerover", "pointermove", "mouseover", "focus", "error", "load", "toggle"]) {
      each.dispatchEvent(new Event(kind, {bubbles: true}));
    }
  }
}
"""
STRANGE_MARKUP = """
() => document.querySelectorAll(`
  main script:not([type="application/json"]),
  main :is(img, iframe, object, embed, link, meta, base, form:not(.controls), animate, i, b),
  [onload], [onerror], [onfocus], [onclick], [onbegin], [onmouseover], [autofocus]
`).length
"""
SHOWN = "() => document.body.textContent"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_do_not_become_markup(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    assert seen.ask(STRANGE_MARKUP) == 0
    assert seen.page.locator("body > script").count() == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_run_nothing_and_request_nothing(opened: Callable[[str], Visit], name: str):
    seen = opened(name)
    seen.ask(STIR)
    assert seen.ask("() => typeof window.canary") == "undefined"
    assert seen.faults == []


def test_a_tooltip_shows_a_hostile_name_as_text(visit: Visiting, reported: Reported):
    with visit(reported.pages["hostile"]) as seen:
        seen.page.locator(f"[data-tip*='{RUNS}']").first.dispatch_event("pointerover")
        assert RUNS in seen.page.locator("#tip").inner_text()
        assert seen.page.locator("#tip *").count() == 0


def test_every_hostile_text_is_shown_as_written(visit: Visiting, reported: Reported):
    with visit(reported.pages["hostile"], has_script=False) as seen:
        shown = seen.ask(SHOWN)
    assert [text for text in TEXTS if text not in shown] == []


def test_names_that_look_like_chart_values_or_colours_stay_names(visit: Visiting, reported: Reported):
    with visit(reported.pages["hostile"]) as seen:
        labels = seen.page.locator("#means svg text").all_text_contents()
    assert {"$models", "@ink", "c1"} <= set(labels)


def test_a_text_without_spaces_is_cut_and_its_length_shown(visit: Visiting, reported: Reported):
    with visit(reported.pages["hostile"], width=320) as seen:
        shown = seen.ask(SHOWN)
    assert "W" * 1_000 in shown and "W" * LONG not in shown
    assert "characters in total" in shown
