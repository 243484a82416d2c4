"""Time to the first page of `gradebook view`, and of its pages, on a lake of many runs.

    python bench/view.py [--runs 1000] [--reads 20] [--folder FOLDER]

One evaluation of the shipped example is published; the other runs are its rows under other ids, put into the tables
that the pages read, each with the summary in its folder. The first page is timed from the start of the request to a
server that has just printed its link; the others are the median and the 95th percentile of --reads requests. `anew` is
the first request of a page, which later requests of the same version of the lake need not work out again.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.workspace.folder import RunFolder

TABLES = ("run_scores", "criterion_scores", "category_scores", "stage_costs", "score_distribution")
PROGRAM = [sys.executable, "-m", "gradebook"]


def make_lake(folder: Path, run_count: int) -> Lake:
    """Lake with this number of published runs; the example's is the newest."""
    uri = f"sqlite:{folder / 'catalog.sqlite'}"
    subprocess.run([*PROGRAM, "demo", "--lake", uri], check=True, capture_output=True)
    lake = find_lake(uri)
    with connect(lake, read_only=True) as connection:
        (run_id,) = connection.execute("select run_id from runs").fetchone() or ("",)

    def copy_rows(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        copies = f"range(1, {int(run_count)}) as copies (number)"
        copy_id = "printf('copy-%05d', number) as run_id"
        moved = "created_at - to_hours(number) as created_at, finished_at - to_hours(number) as finished_at"
        connection.execute(
            f"insert into runs select runs.* replace ({copy_id}, {moved}, -number as version) from runs, {copies}"
        )
        for table in TABLES:
            connection.execute(f"insert into {table} select {table}.* replace ({copy_id}) from {table}, {copies}")

    commit(lake, "copies of a run", copy_rows)
    published = RunFolder(lake.root / "runs" / run_id).published_file
    for number in range(1, run_count):
        copy = RunFolder(lake.root / "runs" / f"copy-{number:05d}")
        copy.path.mkdir()
        shutil.copy(published, copy.published_file)
    return lake


def measure(lake: Lake, run_count: int, read_count: int) -> None:
    """Print the time of each page."""
    command = [*PROGRAM, "view", "--lake", f"sqlite:{lake.address}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None  # noqa: S101 - a pipe
            link = server.stdout.readline().strip()
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            print(f"{'first page, by the link':40}{read_s(opener, link):8.3f} s   at {run_count:,} runs")
            base, older = link.partition("/t/")[0], "copy-00001"
            for address in ("/", "/?q=copy&page=9", "/?verdict=undecided", f"/runs/{older}", "/runs/nobody"):
                anew = read_s(opener, base + address)
                seconds = sorted(read_s(opener, base + address) for _ in range(read_count))
                tail = seconds[int(0.95 * (len(seconds) - 1))]
                print(f"{address:40}{statistics.median(seconds):8.3f} s   p95 {tail:.3f} s   anew {anew:.3f} s")
        finally:
            server.terminate()


def read_s(opener: urllib.request.OpenerDirector, address: str) -> float:
    """Seconds until a page is read."""
    begin = time.perf_counter()
    try:
        with opener.open(address) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.read()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--reads", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="where the lake is made, or is from an earlier call")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "lake"
        catalog = folder / "catalog.sqlite"
        lake = find_lake(f"sqlite:{catalog}") if catalog.exists() else make_lake(folder, options.runs)
        measure(lake, options.runs, options.reads)


if __name__ == "__main__":
    main()
