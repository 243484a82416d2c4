"""Time to the first page of `gradebook view`, and of its pages, on a lake of many runs, or of a run of many outputs.

    python bench/view.py [--runs 1000] [--reads 20] [--folder FOLDER]
    python bench/view.py --cases 20000 [--models 5] [--criteria 8]
    python bench/view.py --viewers 50 [--pairs 2]

One evaluation of the shipped example is published; the other runs are its rows under other ids, put into the tables
that the pages read, each with the summary in its folder. The first page is timed from the start of the request to a
server that has just printed its link; the others are the median and the 95th percentile of --reads requests. `anew` is
the first request of a page, which later requests of the same version of the lake need not work out again.

--cases: instead a run of so many cases, made in SQL. Each request is for another page, so that each is worked out anew.

--viewers: instead the pace of runs of 400 judgments of 200 ms each, alone and with so many viewers, each of whom reads
a page every 2 s; --pairs of such runs, in turn.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from threading import Event

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.large_run import make_large_run
from tests.support.samples import write_outputs, write_rubric

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


@contextmanager
def served(lake: Lake) -> Iterator[tuple[str, urllib.request.OpenerDirector]]:
    """Link of a lake's server, and an opener for its reader."""
    command = [*PROGRAM, "view", "--lake", f"sqlite:{lake.address}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None  # noqa: S101 - a pipe
            link = server.stdout.readline().strip()
            yield link, urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        finally:
            server.terminate()


def measure(lake: Lake, run_count: int, read_count: int) -> None:
    """Print the time of each page."""
    with served(lake) as (link, opener):
        print(f"{'first page, by the link':40}{read_s(opener, link):8.3f} s   at {run_count:,} runs")
        base, older = link.partition("/t/")[0], "copy-00001"
        for address in ("/", "/?q=copy&page=9", "/?verdict=undecided", f"/runs/{older}", "/runs/nobody"):
            anew = read_s(opener, base + address)
            seconds = [read_s(opener, base + address) for _ in range(read_count)]
            print(f"{address:40}{times_words(seconds)}   anew {anew:.3f} s")


def times_words(seconds: list[float]) -> str:
    """Median and 95th percentile."""
    seconds = sorted(seconds)
    return f"{statistics.median(seconds):8.3f} s   p95 {seconds[int(0.95 * (len(seconds) - 1))]:.3f} s"


def measure_cases(lake: Lake, case_count: int, read_count: int) -> None:
    """Print the time of pages of cases, each of another page or case."""
    run = "/runs/large/cases"
    kinds = {
        "grid": "page={page}",
        "outputs by criterion": "grid=criteria&page={page}",
        "one criterion": "criterion=criterion_0&page={page}",
        "a level": "criterion=criterion_2&level=l1&page={page}",
        "a model": "model=model+1&page={page}",
        "failed gate": "gate=1&page={page}",
        "metadata": "field=topic&content=3&page={page}",
        "text": "text=label+{number}",
    }
    with served(lake) as (link, opener):
        base = link.partition("/t/")[0]
        read_s(opener, link)
        print(f"{'a run, for the first time':40}{read_s(opener, f'{base}/runs/large'):8.3f} s")
        for name, values in kinds.items():
            pages = [values.format(page=number + 2, number=number) for number in range(read_count)]
            print(f"{name:40}{times_words([read_s(opener, f'{base}{run}?{page}') for page in pages])}", flush=True)
        numbers = [number * case_count // read_count for number in range(read_count)]
        cases = [read_s(opener, f"{base}{run}/case%20{number}") for number in numbers]
        print(f"{'a case':40}{times_words(cases)}")


ADDRESSES = ("/", "/runs/{run}", "/runs/{run}/cases", "/runs/{run}/sections/cost", "/rubrics", "/people")
JUDGMENTS, LATENCY_S, IN_FLIGHT, PAUSE_S = 400, 0.2, 4, 2.0


@dataclass
class Viewed:
    """Seconds of each page that a viewer read, and the addresses that failed."""

    seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def measure_viewers(folder: Path, viewer_count: int, pair_count: int) -> None:
    """Print how long runs take without viewers and with them, how long their pages, and the server's CPU."""
    uri = f"sqlite:{folder / 'catalog.sqlite'}"
    if not (folder / "catalog.sqlite").exists():
        subprocess.run([*PROGRAM, "demo", "--lake", uri], check=True, capture_output=True)
    lake = find_lake(uri)
    with connect(lake, read_only=True) as connection:
        (run_id,) = connection.execute("select run_id from runs order by version limit 1").fetchone() or ("",)
    write_rubric(folder / "rubric.yaml")
    judge = [sys.executable, str(Path(__file__).parents[1] / "tests/support/loopback_judge.py")]
    with subprocess.Popen([*judge, "--latency-s", str(LATENCY_S)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None  # noqa: S101 - a pipe
            port = int(server.stdout.readline())
            settings = f"model: m\nbase_url: http://127.0.0.1:{port}/v1\nmax_in_flight: {IN_FLIGHT}\n"
            (folder / "judge.yaml").write_text(settings, encoding="utf-8")
            times: dict[bool, list[float]] = {False: [], True: []}
            seen = Viewed()
            for number in range(pair_count):
                times[False].append(evaluate_s(folder, uri, f"alone {number} {time.time()}"))
                print(f"{JUDGMENTS} judgments alone{times[False][-1]:24.1f} s", flush=True)
                with served(lake) as (link, _):
                    times[True].append(
                        watched_s(folder, uri, f"watched {number} {time.time()}", link, run_id, viewer_count, seen)
                    )
                print(f"with {viewer_count} viewers{times[True][-1]:28.1f} s", flush=True)
        finally:
            server.terminate()
    alone, watched = (statistics.mean(times[name]) for name in (False, True))
    print(f"pace with viewers            {alone / watched - 1:+.1%}")
    print(f"pages {len(seen.seconds):,}, failed {len(seen.faults)} {seen.faults[:3]}")
    print(f"a page                       {times_words(seen.seconds)}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU of all processes         {usage.ru_utime + usage.ru_stime:.1f} s, this one {time.process_time():.1f} s")


def evaluate_s(folder: Path, uri: str, name: str) -> float:
    """Seconds of a run of new outputs, from its start to its end."""
    outputs = write_outputs(folder / "outputs.jsonl", JUDGMENTS, (name,))
    words = ["evaluate", str(outputs), "--rubric", str(folder / "rubric.yaml"), "--judge", str(folder / "judge.yaml")]
    begin = time.perf_counter()
    environment = os.environ | {"OPENAI_API_KEY": "k"}
    subprocess.run([*PROGRAM, *words, "--lake", uri], check=True, capture_output=True, env=environment)
    return time.perf_counter() - begin


def watched_s(folder: Path, uri: str, name: str, link: str, run_id: str, viewer_count: int, seen: Viewed) -> float:
    """Seconds of a run, from its start to its end, while viewers look at pages."""
    is_over = Event()

    def look(number: int) -> None:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        addresses = [link, *(link.partition("/t/")[0] + address.format(run=run_id) for address in ADDRESSES)]
        is_over.wait(PAUSE_S * number / viewer_count)
        while not is_over.is_set():
            for address in addresses if number % 2 else addresses[:1] + addresses[:0:-1]:
                begin = time.perf_counter()
                try:
                    with opener.open(address, timeout=60) as answer:
                        answer.read()
                except OSError as error:
                    seen.faults.append(f"{address}: {error}")
                taken_s = time.perf_counter() - begin
                seen.seconds.append(taken_s)
                if is_over.wait(max(PAUSE_S - taken_s, 0.0)):
                    return

    with ThreadPoolExecutor(viewer_count) as pool:
        looks = [pool.submit(look, number) for number in range(viewer_count)]
        taken_s = evaluate_s(folder, uri, name)
        is_over.set()
    for each in looks:
        each.result()
    return taken_s


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
    parser.add_argument("--cases", type=int)
    parser.add_argument("--viewers", type=int)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--criteria", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "lake"
        folder.mkdir(parents=True, exist_ok=True)
        if options.viewers:
            measure_viewers(folder, options.viewers, options.pairs)
            return
        if options.cases:
            catalog = folder / "lake" / "catalog.sqlite"
            lake = (
                find_lake(f"sqlite:{catalog}")
                if catalog.exists()
                else make_large_run(folder, options.cases, options.models, options.criteria)
            )
            measure_cases(lake, options.cases, options.reads)
            return
        catalog = folder / "catalog.sqlite"
        lake = find_lake(f"sqlite:{catalog}") if catalog.exists() else make_lake(folder, options.runs)
        measure(lake, options.runs, options.reads)


if __name__ == "__main__":
    main()
