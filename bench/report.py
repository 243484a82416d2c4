"""Time and size of the report page of a large run: writing, storing, opening.

    python bench/report.py [--cases 10000] [--models 5] [--criteria 20] [--paints 5]

The lake is made in SQL: outputs of about 500 characters, half of the criteria judged. The page is written in a process
of its own; for comparison another process writes a plain page of the run's tables and 100 outputs with pandas. Each
page is opened from disk in chromium, with the network off, --paints times; the paint is the median first contentful
paint, also given for a page of one word. The last line is the figure. Fails if the page has more than 8 MB.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect
from tests.support.large_run import RUN_ID, make_large_run

MOST_MB = 8
PLAIN_TABLES = ("run_scores", "criterion_scores", "category_scores", "score_distribution", "stage_costs")
PLAIN_OUTPUTS = (
    "select * from output_scores inner join outputs using (output_id) where run_id = ? order by score limit 100"
)
FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
WORD = "<!doctype html><html lang=en><meta charset=utf-8><title>A word</title><p>word"


def write_page(lake: Lake, file: Path) -> None:
    """Write the page as `gradebook report` does."""
    from gradebook.tasks.published.summary import summarise
    from gradebook.tasks.reporting.page import write_report

    write_report(lake, summarise(lake, RUN_ID), file)


def write_plain_page(lake: Lake, file: Path) -> None:
    """Write the run's tables and some outputs without further processing."""
    with connect(lake, read_only=True) as connection:
        queries = [*(f"from {table} where run_id = ?" for table in PLAIN_TABLES), PLAIN_OUTPUTS]
        tables = [connection.execute(query, [RUN_ID]).df().to_html() for query in queries]
    file.write_text(f"<!doctype html><meta charset=utf-8><title>Tables</title>{''.join(tables)}", encoding="utf-8")


WRITERS = {"page": write_page, "plain": write_plain_page}


def run_child(part: str, lake: Lake, file: Path) -> dict[str, float]:
    """Write a page in a process of its own; returns wall and CPU seconds with imports, peak memory and page size."""
    command = [sys.executable, str(Path(__file__)), "--part", part, "--lake", f"sqlite:{lake.address}"]
    begin = time.perf_counter()
    finished = subprocess.run([*command, "--file", str(file)], capture_output=True, text=True, check=False)
    if finished.returncode:
        sys.exit(finished.stderr)
    wall_s = time.perf_counter() - begin
    return json.loads(finished.stdout) | {"wall_s": wall_s, "page_mb": file.stat().st_size / 1e6}


def run_as_child(given: argparse.Namespace) -> None:
    """Write one page and print its measurements."""
    WRITERS[given.part](find_lake(given.lake), Path(given.file))
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak_mb = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    sys.stdout.write(json.dumps({"cpu_s": time.process_time(), "peak_mb": peak_mb}))


def first_paints(files: dict[str, Path], count: int) -> dict[str, float]:
    """Median first contentful paint of each page in milliseconds, pages alternating; empty without chromium."""
    from tests.support.chromium import find_chromium, running_chromium, visited

    program = find_chromium()
    if program is None:
        return {}
    found: dict[str, list[float]] = {name: [] for name in files}
    with running_chromium(program) as browser:
        for _ in range(count):
            for name, file in files.items():
                with visited(browser, file) as seen:
                    seen.page.wait_for_function(FIRST_PAINT)
                    found[name].append(seen.ask(FIRST_PAINT))
    return {name: statistics.median(paints) for name, paints in found.items()}


def bench(given: argparse.Namespace) -> None:
    """Make the lake and both pages, and open the pages."""
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        begin = time.perf_counter()
        lake = make_large_run(folder, given.cases, given.models, given.criteria)
        count = given.cases * given.models * given.criteria
        print(f"a lake of {count:,} verdicts in {time.perf_counter() - begin:.0f} s")
        files = {part: folder / f"{part}.html" for part in WRITERS}
        taken = {part: run_child(part, lake, file) for part, file in files.items()}
        (folder / "word.html").write_text(WORD, encoding="utf-8")
        paints = first_paints(files | {"word": folder / "word.html"}, given.paints)
    for part, took in taken.items():
        print(f"{part}: {took['wall_s']:.1f} s, {took['cpu_s']:.1f} s CPU, peak {took['peak_mb']:,.0f} MB")
    if "word" in paints:
        print(f"first paint of one word: {paints['word']:.0f} ms")
    page, plain = (_size_and_paint(taken[part], paints.get(part)) for part in WRITERS)
    print(f"{count:,} verdicts: {page}, of {MOST_MB} MB at most; plain tables {plain}")
    if taken["page"]["page_mb"] > MOST_MB:
        sys.exit(f"the page has more than {MOST_MB} MB")


def _size_and_paint(took: dict[str, float], paint_ms: float | None) -> str:
    paint = "no chromium to open it" if paint_ms is None else f"first paint {paint_ms:.0f} ms"
    return f"{took['wall_s']:.1f} s, {paint}, {took['page_mb']:.2f} MB"


def main() -> None:
    """Run the benchmark, or its part for a child process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--criteria", type=int, default=20)
    parser.add_argument("--paints", type=int, default=5)
    parser.add_argument("--folder", help="where the lake is made, 0.2 GB for a million verdicts")
    for name in ("--part", "--lake", "--file"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    run_as_child(given) if given.part else bench(given)


if __name__ == "__main__":
    main()
