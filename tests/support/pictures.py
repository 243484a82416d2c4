"""Pictures of the README and the docs: pages of the demo's run, in chromium. `make pictures` writes them anew."""

import base64
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page

from gradebook.tasks.lake.address import Lake, find_lake
from tests.support.chromium import find_chromium, running_chromium, visited
from tests.support.rating_server import rating_server
from tests.support.viewed import view_server

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "images"
PICTURES = ("report", "report-spread", "report-example", "view", "view-case", "rating", "rating-pairs")
MOST_BYTES = 150_000  # of a picture
MOST_COLOURS, MOST_FREQUENT = 256, 160
SHOWN_LAKE = "demo-lake/catalog.sqlite"  # in commands on the page, in place of a temporary folder's
CASE = "c34"  # the judge marks words in both answers to it
# Pixels of a picture, as RGBA in base64.
DECODE = """async (png) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const bytes = canvas.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return [image.width, image.height, btoa(text)];
}"""
RENAME = """([address, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(address, shown);
}"""


def write_pictures(folder: Path) -> None:
    """Write each picture into the folder."""
    program = find_chromium()
    if program is None:
        sys.exit("pictures: found no chromium on the path, expected one (apt-get install chromium)")
    with TemporaryDirectory() as temporary, running_chromium(program) as browser:
        lake = find_lake(f"sqlite:{temporary}/lake/catalog.sqlite")
        _gradebook("demo", "--lake", f"sqlite:{lake.address}")
        (report,) = lake.root.glob("runs/*/report.html")
        page = report.read_text(encoding="utf-8").replace(lake.address, SHOWN_LAKE)
        report.write_text(page, encoding="utf-8")
        _draw_report(browser, report, folder)
        _draw_view(browser, lake, folder)
        _draw_rating(browser, lake, folder)
        for name in PICTURES:
            _shrink(browser, folder / f"{name}.png")


def _gradebook(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "gradebook", *words], check=True, stdout=subprocess.DEVNULL)


def _draw_report(browser: Browser, report: Path, folder: Path) -> None:
    with visited(browser, report) as visit:
        visit.page.set_viewport_size({"width": 1280, "height": 1740})
        visit.page.screenshot(path=folder / "report.png")
    with visited(browser, report, scheme="dark", fragment="#spread") as visit:
        visit.page.set_viewport_size({"width": 1280, "height": 840})
        _scroll_to(visit.page, "#spread")
        visit.page.screenshot(path=folder / "report-spread.png")
    with visited(browser, report) as visit:
        visit.page.set_viewport_size({"width": 1280, "height": 1000})
        example = visit.page.locator("#examples details", has_text=CASE).first
        example.locator("summary").first.click()
        example.evaluate("shown => scrollTo(0, shown.getBoundingClientRect().top + scrollY - 100)")
        visit.page.screenshot(path=folder / "report-example.png")


def _scroll_to(page: Page, selector: str) -> None:
    page.locator(selector).first.scroll_into_view_if_needed()
    page.evaluate("selector => document.querySelector(selector).scrollIntoView()", selector)


def _draw_view(browser: Browser, lake: Lake, folder: Path) -> None:
    run_id = next(lake.root.glob("runs/*/report.html")).parent.name
    with view_server(lake) as link:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.set_default_timeout(120_000)
        for name, address in (("view", "/"), ("view-case", f"/runs/{run_id}/cases/{CASE}")):
            page.goto(link)
            page.goto(link.partition("/t/")[0] + address)
            for shown in (lake.address, os.path.relpath(lake.address)):
                page.evaluate(RENAME, [shown, SHOWN_LAKE])
            page.screenshot(path=folder / f"{name}.png")
        page.context.close()


def _draw_rating(browser: Browser, lake: Lake, folder: Path) -> None:
    for name, options in (("rating", ()), ("rating-pairs", ("--pairs",))):
        with rating_server(lake, *options, raters="anna") as server:
            page = browser.new_context(viewport={"width": 1200, "height": 780}).new_page()
            page.goto(server.links["anna"])
            page.click("text=Start")
            page.wait_for_selector("#sheet")
            page.screenshot(path=folder / f"{name}.png")
            page.context.close()


def _shrink(browser: Browser, picture: Path) -> None:
    """Write a picture again with a palette: a half to a third of the bytes."""
    page = browser.new_page()
    width, height, text = page.evaluate(DECODE, base64.b64encode(picture.read_bytes()).decode())
    page.close()
    pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(height * width, 4)[:, :3]
    codes = pixels.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colours, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    palette = _palette(colours, counts)
    nearest = _distances(colours, palette).argmin(axis=1)
    rows = nearest.astype(np.uint8)[places].reshape(height, width)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # 8 bits a pixel, by a palette
    chunks = ((b"IHDR", header), (b"PLTE", _channels(palette).astype(np.uint8).tobytes()))
    end = ((b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in (*chunks, *end)))


def _palette(colours: NDArray[np.uint32], counts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The most frequent colours, then those that are farthest from all before: also small marks keep theirs."""
    palette = colours[np.argsort(-counts)[:MOST_FREQUENT]]
    distances = _distances(colours, palette).min(axis=1)
    while len(palette) < MOST_COLOURS and distances.max() > 0:
        palette = np.append(palette, colours[distances.argmax()])
        distances = np.minimum(distances, _distances(colours, palette[-1:])[:, 0])
    return palette


def _distances(colours: NDArray[np.uint32], palette: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Squared distances of colours: (colour, colour of the palette)."""
    squares = (_channels(colours)[:, None] - _channels(palette)[None]) ** 2
    distances: NDArray[np.int32] = squares.sum(axis=2, dtype=np.int32)
    return distances


def _channels(codes: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Red, green and blue of colours: (colour, channel)."""
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1).astype(np.int32)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


if __name__ == "__main__":
    write_pictures(FOLDER)
