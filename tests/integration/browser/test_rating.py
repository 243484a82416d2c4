"""The rating page in a browser: by keyboard alone, without its script, with hostile texts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Page

from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from tests.support.chromium import WATCH
from tests.support.rating_server import RatingServer, rating_server
from tests.support.served_ratings import TWO_RUBRIC, paired_run, rated_run, stepped_run

pytestmark = pytest.mark.browser
SELECT = """place => {
  const text = document.querySelector(".answer").firstChild;
  getSelection().setBaseAndExtent(text, place * 10, text, place * 10 + 8);
}"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return rated_run(tmp_path_factory.mktemp("rating"))


@pytest.fixture(scope="module")
def server(lake: Lake) -> Iterator[RatingServer]:
    with rating_server(lake, raters="anna,ben,cleo,dora") as server:
        yield server


def opened(browser, link: str, **options: object) -> Page:
    """First sheet of a rater."""
    context = browser.new_context(**options)
    context.add_init_script(WATCH)
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (page.complaints.append(dialog.message), dialog.dismiss()))
    page.goto(link)
    page.click("text=Start")
    page.wait_for_selector("#sheet")
    return page


def test_sheets_are_rated_by_keyboard_alone_and_a_closed_tab_is_continued(browser, server: RatingServer, lake: Lake):
    page = opened(browser, server.links["anna"])
    page.keyboard.press("Enter")  # nothing is chosen
    assert page.text_content("#saved") == "1 not rated yet"
    for position in (1, 2):
        page.keyboard.press("2")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/sheet/{position + 1}")
    page.keyboard.press("1")
    page.locator("#saved", has_text="Draft saved").wait_for()
    page.context.close()
    again = opened(browser, server.links["anna"])
    assert again.url.endswith("/sheet/3")
    assert again.locator("input[value=bad]").is_checked()
    again.keyboard.press("u")  # nothing of this visit to undo
    again.keyboard.press("2")
    again.keyboard.press("u")
    assert again.locator("input[value=bad]").is_checked()
    again.keyboard.press("b")
    again.wait_for_url("**/sheet/2")
    assert again.locator("input[value=good]").is_checked()
    assert again.complaints == []


@pytest.mark.nightly
def test_selected_words_are_marked_for_a_criterion_and_can_be_taken_back(browser, tmp_path: Path):
    lake = rated_run(tmp_path)
    with rating_server(lake, raters="anna") as server:
        page = opened(browser, server.links["anna"])
        page.keyboard.press("e")
        assert page.text_content("#saved") == "Select words of the output first"
        for passage in (0, 1):
            page.evaluate(SELECT, passage)
            page.keyboard.press("e")
        first, second = page.locator(".marked button").all_text_contents()
        page.locator("#saved", has_text="Draft saved").wait_for()
        page.reload()
        assert page.locator(".marked button").all_text_contents() == [first, second]
        assert [each["id"] for each in Axe().run(page)["violations"]] == []
        page.locator(".marked button").first.click()
        page.keyboard.press("2")
        page.keyboard.press("Enter")
        page.wait_for_url("**/sheet/2")
    with connect(lake, read_only=True) as connection:
        ((evidence,),) = connection.execute("select evidence from ratings").fetchall()
    assert [f"“{passage}”" for passage in json.loads(evidence)] == [second]


def test_two_tabs_of_one_sheet_overwrite_nothing(browser, server: RatingServer):
    first = opened(browser, server.links["ben"])
    second = first.context.new_page()
    second.goto(first.url)
    first.keyboard.press("2")
    first.keyboard.press("Enter")
    first.wait_for_url("**/sheet/2")
    second.keyboard.press("1")
    second.locator("#saved", has_text="Not saved").wait_for()
    second.keyboard.press("Enter")
    second.wait_for_selector("[role=alert]")
    assert "submitted in another tab" in second.text_content("[role=alert]")
    assert second.locator("input[value=good]").is_checked()


def test_the_page_works_without_its_script(browser, server: RatingServer):
    page = opened(browser, server.links["cleo"], java_script_enabled=False)
    page.click("button[value=submit]")
    assert "not rated yet" in page.text_content("main")
    page.check("input[value=good]")
    sheet = page.url
    page.click("button[value=submit]")
    page.wait_for_url(lambda address: address != sheet)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_texts_run_nothing_and_the_page_is_accessible_at_any_width(browser, server: RatingServer, scheme: str):
    page = opened(browser, server.links["dora"], color_scheme=scheme)
    assert "<script>alert(1)</script>" in page.text_content(".answer")
    for width in (320, 1280, 3840):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page)
    assert [each["id"] for each in found["violations"]] == []
    assert page.complaints == []
    assert page.evaluate("window.violations") == []


@pytest.mark.nightly
def test_pairs_are_compared_by_keyboard_side_by_side(browser, tmp_path: Path):
    lake = paired_run(tmp_path)
    with rating_server(lake, "--pairs", raters="anna") as server:
        page = opened(browser, server.links["anna"])
        boxes = [page.locator(".pair section").nth(place).bounding_box() for place in (0, 1)]
        assert boxes[0]["y"] == boxes[1]["y"]
        for width in (320, 3840):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [each["id"] for each in Axe().run(page)["violations"]] == []
        for key in ("1", "3", "Enter"):  # 1 is much better in tone, about equal as a whole
            page.keyboard.press(key)
        page.wait_for_url("**/sheet/2")
        assert page.complaints == []
    with connect(lake, read_only=True) as connection:
        rows = connection.execute("select criterion_id, abs(score - 0.5) from preferences order by all").fetchall()
    assert rows == [("overall", 0.0), ("tone", 0.5)]


@pytest.mark.nightly
def test_steps_are_marked_by_keyboard_and_without_the_script(browser, tmp_path: Path):
    lake = stepped_run(tmp_path)
    with rating_server(lake, raters="anna,ben") as server:
        page = opened(browser, server.links["anna"])
        assert [page.locator(".error").nth(place).is_visible() for place in (0, 1, 2)] == [False] * 3
        for key in ("3", "1"):  # step 1 is right, step 2 is wrong: its error has the focus
            page.keyboard.press(key)
        for key in ("w", "Tab", "m", "m"):  # wrong tool; minor, then major
            page.keyboard.press(key)
        assert page.text_content("[data-score-of]") == "90 of 100, 1 steps open"
        for width in (320, 3840):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [each["id"] for each in Axe().run(page)["violations"]] == []
        page.focus("[name='level.steps.3']")
        for key in ("3", "2", "Enter"):  # step 3 is right, the tone is good
            page.keyboard.press(key)
        page.wait_for_selector("text=Nothing is left to rate")
        assert (page.complaints, page.evaluate("window.violations")) == ([], [])
        plain = opened(browser, server.links["ben"], java_script_enabled=False)
        for name, value in (("steps.1", "right"), ("steps.2", "partial"), ("steps.3", "right"), ("tone", "good")):
            plain.check(f"[name='level.{name}'][value={value}]")
        plain.click("button[value=submit]")
        assert "not rated yet" in plain.text_content("main")
        plain.select_option("[name='error.steps.2']", "fact")
        plain.select_option("[name='severity.steps.2']", "minor")
        plain.click("button[value=submit]")
        plain.wait_for_selector("text=Nothing is left to rate")
    with connect(lake, read_only=True) as connection:
        select = "select rater, step_index, label, error_type, error_subtype, severity from step_ratings "
        marks = connection.execute(select + "where error_type is not null order by all").fetchall()
    assert marks == [
        ("anna", 2, "wrong", "tool", "wrong_tool", "major"),
        ("ben", 2, "partial", "fact", None, "minor"),
    ]


@pytest.mark.nightly
def test_two_criteria_of_steps_are_rated_and_what_is_disputed_is_settled_by_keyboard_and_without_the_script(
    browser, tmp_path: Path
):
    lake = stepped_run(tmp_path, TWO_RUBRIC)
    with rating_server(lake, raters="anna,ben") as server:
        page = opened(browser, server.links["anna"])
        check_layout(page)
        for key in ("3", "2", "1", "1", "m", "m", "Tab", "Tab", "3", "2", "Enter"):  # step 2: wrong, unsafe (major)
            page.keyboard.press(key)
        page.wait_for_selector("text=Nothing is left to rate")
        plain = opened(browser, server.links["ben"], java_script_enabled=False)
        for name in ("steps.1", "steps.2", "steps.3", "safe.1", "safe.2", "safe.3"):
            plain.check(f"[name='level.{name}'][value={'right' if name.startswith('steps') else 'fine'}]")
        plain.click("button[value=submit]")
        plain.wait_for_selector("text=Nothing is left to rate")
        page.context.close()
    with rating_server(lake, "--queue", "adjudicate", raters="lea,leo") as server:
        page = opened(browser, server.links["lea"])
        assert page.locator("fieldset").count() == 2
        check_layout(page)
        page.keyboard.press("1")
        page.keyboard.press("Control+Enter")
        assert page.text_content("#saved") == "1 without a cause, 1 not rated yet"
        assert page.locator(".lack").all_text_contents() == ["without a cause", "not rated yet"]
        # After a level its cause has the focus: a mistake; then what the next row lacks, its severity last.
        for key in ("3", "1", "c", "r", "3", "m", "Control+Enter"):
            page.keyboard.press(key)
        page.wait_for_selector("text=Nothing is left to settle")
        plain = opened(browser, server.links["leo"], java_script_enabled=False)
        for name, level in (("steps", "right"), ("safe", "fine")):
            plain.check(f"[name='level.{name}.2'][value={level}]")
        plain.click("button[value=submit]")
        assert "2 decisions lack a level or its cause" in plain.text_content("main")
        assert plain.locator(".lack").all_text_contents() == ["without a cause"] * 2
        for name in ("steps", "safe"):
            plain.check(f"[name='cause.{name}.2'][value=taste]")
        plain.click("button[value=submit]")
        plain.wait_for_selector("text=Nothing is left to settle")
    with connect(lake, read_only=True) as connection:
        columns = "adjudicator, criterion_id, label, severity, cause, confidence, needs_rubric_update"
        select = f"select {columns} from step_adjudications order by all"
        settled = connection.execute(select).fetchall()
    assert settled == [
        ("lea", "safe", "unsafe", "minor", "mistake", "low", True),
        ("lea", "steps", "wrong", None, "mistake", None, False),
        ("leo", "safe", "fine", None, "taste", None, False),
        ("leo", "steps", "right", None, "taste", None, False),
    ]


def check_layout(page: Page) -> None:
    """Look at a sheet at two widths: nothing is cut off, it is accessible, and nothing was complained of."""
    for width in (320, 3840):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [each["id"] for each in Axe().run(page)["violations"]] == []
    assert (page.complaints, page.evaluate("window.violations")) == ([], [])


def test_what_was_rated_in_the_browser_is_in_the_lake_once_the_server_ends(lake: Lake, server: RatingServer):
    server.process.terminate()
    server.process.wait(timeout=60)
    with connect(lake, read_only=True) as connection:
        rows = connection.execute("select rater, count(*) from ratings group by rater order by rater").fetchall()
    assert rows == [("anna", 2), ("ben", 1), ("cleo", 1)]
