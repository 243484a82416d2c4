"""One browser for the folder, and pages of real runs, made once."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import Visit, Visiting, find_chromium, running_chromium, visited
from tests.support.page_runs import Reported, report_runs


@pytest.fixture(scope="session")
def program() -> str:
    found = find_chromium()
    if found is None:
        pytest.skip("found no chromium on the path: no page was opened in a browser (apt-get install chromium)")
    return found


@pytest.fixture(scope="session")
def reported(program: str, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """Runs with pages, made only if there is a browser."""
    return report_runs(tmp_path_factory)


@pytest.fixture(scope="package")
def browser(program: str) -> Iterator[Browser]:
    """A browser that ends with the folder's tests, as does its event loop: other tests run their own."""
    with running_chromium(program) as browser:
        yield browser


@pytest.fixture(scope="package")
def visit(browser: Browser, reported: Reported) -> Visiting:
    """Open a page in the browser."""
    return partial(visited, browser)


@pytest.fixture(scope="module")
def opened(visit: Visiting, reported: Reported) -> Iterator[Callable[[str], Visit]]:
    """Page by its name, opened once for all laws that only read it."""
    with ExitStack() as open_pages:
        yield cache(lambda name: open_pages.enter_context(visit(reported.pages[name])))
