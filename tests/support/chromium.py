"""The system's chromium on a page from disk, with the network off: what it asked for and what went wrong in it."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
Scheme = Literal["light", "dark"]
# Runs in each page before anything of its own does, as the browser's own script: no policy of a page holds it back.
WATCH = """
window.shifts = [];
window.violations = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shifts.push(entry.value);
}).observe({type: "layout-shift", buffered: true});
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`);
});
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """An open page. requests: what it asked for beside its own file; complaints: errors, and dialogs that it opened."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def ask(self, script: str, given: Any = None) -> Any:
        """What a function in JavaScript answers."""
        return self.page.evaluate(script, given)

    @property
    def faults(self) -> list[str]:
        """Everything that a page may not do: requests, errors, dialogs, and what its policy had to refuse."""
        return [*self.requests, *self.complaints, *self.ask("() => window.violations ?? []")]


Visiting = Callable[..., AbstractContextManager[Visit]]  # `visited`, with its browser


def find_chromium() -> str | None:
    """The path of the browser; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def running_chromium(program: str) -> Iterator[Browser]:
    """A browser without a window. While it runs its thread has an event loop: no other can be run beside it."""
    # Chromium's sandbox refuses to start as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visited(
    browser: Browser,
    file: Path,
    *,
    width: int = 1280,
    scheme: Scheme = "light",
    has_script: bool = True,
    fragment: str = "",
) -> Iterator[Visit]:
    """A page opened from disk in a window of this width. fragment: what its address ends with, from the `#` on."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion="reduce",  # a smooth scroll ends when it likes
        java_script_enabled=has_script,
        offline=True,
    )
    try:
        if has_script:
            context.add_init_script(WATCH)
        visit = _watched(context, file.as_uri())
        visit.page.goto(file.as_uri() + fragment)
        yield visit
    finally:
        context.close()


def _watched(context: BrowserContext, address: str) -> Visit:
    """An empty page that will ask for nothing but this address, and whose every fault is kept."""
    page = context.new_page()
    visit = Visit(page)

    def answer(route: Route) -> None:
        if route.request.url.partition("#")[0] == address:
            route.continue_()
        else:
            visit.requests.append(f"asked for {route.request.url[:200]}")
            route.abort()

    context.route("**/*", answer)
    context.on("page", lambda opened: visit.complaints.append(f"opened the page {opened.url[:200]}"))
    page.on("websocket", lambda socket: visit.requests.append(f"asked for {socket.url}"))
    page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
    page.on("console", lambda said: visit.complaints.append(f"console {said.type}: {said.text}"))
    page.on("dialog", lambda dialog: (visit.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    return visit
