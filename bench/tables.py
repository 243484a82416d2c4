"""Time and memory of the tables: marts of many verdicts, and queries to a lake of many runs.

    python bench/tables.py marts [--cases 100000] [--models 5] [--criteria 20] [--samples 1] [--metadata]
    python bench/tables.py lake [--runs 1000]

marts: builds the marts from a run's verdicts, one Parquet file per shard as `gradebook evaluate` writes them. For
comparison the shortest query for one mean per model and criterion; both run in processes of their own, one after the
other, and the last line is the ratio of their times. lake: publishes runs one by one and queries them from the shell,
before and after a compaction as after a nightly run. The last line of each is the time of `gradebook sql "select * from
run_scores"`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.sql import file_list
from gradebook.tasks.marts.sources import add_criteria_sources

ROOT = Path(__file__).parents[1]
SHARD_CASES = 10_000
PLAIN = """
select model, checkpoint, criterion_id, count(score), avg(score), stddev_samp(score)
from read_parquet({verdicts}) as verdicts inner join read_parquet({outputs}) as outputs using (output_id)
group by model, checkpoint, criterion_id
"""
OUTPUTS = """
copy (
    select
        md5(concat_ws('/', case_number, model, sample)) as output_id, 'case ' || case_number as case_id,
        'model ' || model as model, null::varchar as checkpoint, sample::integer as sample_index,
        null::varchar as cluster, {metadata} as metadata,
    from range({first}, {last}) as cases (case_number), range({models}) as m (model), range({samples}) as s (sample)
) to '{file}' (format parquet, compression zstd)
"""
VERDICTS = """
copy (
    select
        output_id, 'criterion_' || criterion as criterion_id, 'scored' as status,
        [0.0, 0.25, 0.5, 1.0][1 + (hash(output_id, criterion) % 4)::integer] as score, null::varchar as reason,
    from read_parquet('{outputs}'), range({criteria}) as criteria (criterion)
) to '{file}' (format parquet, compression zstd)
"""
METADATA = {False: "null::varchar", True: "json_object('topic', case_number % 12, 'long', case_number % 3 = 0)"}
NO_JUDGMENTS = """
create table source_judgments (
    output_id varchar, criterion_id varchar, prompt_tokens bigint, cached_tokens bigint, completion_tokens bigint,
    cost_usd double, attempts int
)
"""


def make_rubric(criterion_count: int) -> Rubric:
    """Rubric of weighted criteria with four levels and a threshold, in two categories."""
    levels = [{"id": f"l{index}", "score": score} for index, score in enumerate((0.0, 0.25, 0.5, 1.0))]
    shared: dict[str, Any] = {"description": "?", "levels": levels, "method": {"type": "ratings"}, "threshold": 0.5}
    criteria = [
        {"id": f"criterion_{number}", "weight": 1 + number / 7, "category": "ab"[number % 2]} | shared
        for number in range(criterion_count)
    ]
    return Rubric.model_validate({"id": "bench", "version": "1.0.0", "pass_threshold": 0.5, "criteria": criteria})


def write_run_files(folder: Path, given: argparse.Namespace) -> None:
    """Write the shards of outputs and their verdict files."""
    with duckdb.connect() as connection:
        for number, first in enumerate(range(0, given.cases, SHARD_CASES)):
            outputs = folder / f"outputs-{number:05}.parquet"
            span = {"first": first, "last": min(first + SHARD_CASES, given.cases)}
            counts = {"models": given.models, "samples": given.samples, "metadata": METADATA[given.metadata]}
            connection.execute(OUTPUTS.format(file=outputs, **counts, **span))
            verdicts = folder / f"verdicts-{number:05}.parquet"
            connection.execute(VERDICTS.format(file=verdicts, outputs=outputs, criteria=given.criteria))


def sources(folder: Path) -> dict[str, str]:
    """Files of each kind, as a list in SQL."""
    kinds = ("outputs", "verdicts")
    return {kind: file_list(sorted(str(path) for path in folder.glob(f"{kind}-*.parquet"))) for kind in kinds}


def ask_plainly(folder: Path, memory: str) -> None:
    """Run the plain query."""
    with duckdb.connect(config={"memory_limit": memory, "temp_directory": f"{folder}/plain.tmp"}) as connection:
        connection.execute(PLAIN.format(**sources(folder))).fetchall()


def make_marts(folder: Path, memory: str, criterion_count: int) -> None:
    """Build all marts as the aggregate stage does, and print the time of each statement."""
    from gradebook.rubrics.model.verdicts import OPINION_SCHEMA
    from gradebook.tasks.agreement.audited_scores import AUDITED_SCHEMA
    from gradebook.tasks.agreement.mart import AGREEMENT_SCHEMA
    from gradebook.tasks.comparing.run_comparison import RUN_COMPARISON_SCHEMA
    from gradebook.tasks.marts.models import build_marts, connect_marts
    from gradebook.tasks.workspace.folder import RunFolder
    from gradebook.tasks.workspace.timings import TIMING_SCHEMA

    database = folder / "marts.duckdb"
    with connect_marts(database, memory) as connection:
        for kind, files in sources(folder).items():
            connection.execute(f"create view source_{kind} as from read_parquet({files})")
        add_criteria_sources(connection, RunFolder(folder / "run"), make_rubric(criterion_count))
        connection.execute(NO_JUDGMENTS)
        empty = {"opinions": OPINION_SCHEMA, "agreement": AGREEMENT_SCHEMA, "timings": TIMING_SCHEMA}
        empty |= {"run_comparisons": RUN_COMPARISON_SCHEMA, "audited": AUDITED_SCHEMA}
        for name, schema in empty.items():
            connection.register(f"source_{name}", schema.empty_table())
        marts = build_marts(connection)
        for mart in marts:
            connection.execute(f"copy {mart} to '{folder}/{mart}.parquet' (format parquet)")
    database.unlink()


def run_child(part: str, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Run one part in a process of its own; returns wall and CPU seconds, and peak memory in MB."""
    command = [sys.executable, str(Path(__file__)), part, "--folder", str(folder), "--memory", given.memory]
    command += ["--criteria", str(given.criteria)]
    begin = time.perf_counter()
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if finished.returncode:
        sys.exit(finished.stderr)
    return json.loads(finished.stdout) | {"wall_s": time.perf_counter() - begin}


def bench_marts(given: argparse.Namespace) -> None:
    """Time the marts and the plain query, alternating."""
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        write_run_files(folder, given)
        ratios = []
        for _ in range(given.rounds):
            plain, marts = (run_child(part, folder, given) for part in ("plain-child", "marts-child"))
            ratios.append((marts["inner_s"] / plain["inner_s"], marts["cpu_s"] / plain["cpu_s"]))
            for label, taken in (("plain", plain), ("marts", marts)):
                print(f"{label}: {taken['inner_s']:.1f} s, {taken['cpu_s']:.1f} s CPU, peak {taken['peak_mb']:,.0f} MB")
    count = given.cases * given.models * given.samples * given.criteria
    wall, cpu = (sorted(each)[len(each) // 2] for each in zip(*ratios, strict=True))
    print(f"{count:,} verdicts: the marts take {wall:.2f} times the plain query's time, {cpu:.2f} times its CPU")


def bench_lake(given: argparse.Namespace) -> None:
    """Publish many small runs, then query the lake from the shell."""
    from gradebook.tasks.lake.compaction import compact_lake
    from gradebook.tasks.lake.connections import commit
    from tests.support.scored_lake import make_lake

    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        lake = make_lake(Path(name))
        begin = time.perf_counter()
        for number in range(given.runs):
            commit(lake, f"publish run {number}", partial(_publish, number))
        print(f"{given.runs:,} runs published in {time.perf_counter() - begin:.0f} s")
        _ask_all(lake.address)
        print(f"compacted: {compact_lake(lake).sentence}")
        _ask_all(lake.address)


def _ask_all(catalog: str) -> None:
    for query in (
        "from latest_runs",
        "select model, change from score_history order by version desc limit 20",
        "select criterion_id, mean from criterion_scores where run_id = 'run 500'",
        "select * from run_scores",
    ):
        times_s = [_ask(catalog, query) for _ in range(3)]
        print(f"{min(times_s):.2f} s (of {', '.join(f'{each:.2f}' for each in times_s)}): {query}")


def _publish(number: int, connection: duckdb.DuckDBPyConnection, version: int) -> None:
    """Publish a run of 40 outputs, two models and five criteria, in all tables of a run."""
    head = f"select 'run {number}' as run_id, "
    connection.execute(
        "insert into runs by name " + head + "'published' as status, 'r' as rubric_id, '1.0.0' as rubric_version, "
        f"'d' as rubric_digest, 'data' as dataset, 'e' as dataset_digest, 40 as output_count, {version} as version, "
        "now() as created_at, now() as finished_at, 0.0 as cost_usd"
    )
    scored = "(hash(i, {n}) % 101) / 100 as score"
    outputs = "'o' || i as output_id, 'c' || i // 2 as case_id, 'm' || i % 2 as model, 0 as sample_index, "
    connection.execute(
        f"insert into output_scores by name {head}{outputs}{scored.format(n=number)} from range(40) as t (i)"
    )
    connection.execute(
        f"insert into verdicts by name {head}'o' || i // 5 as output_id, 'k' || i % 5 as criterion_id, "
        f"'check' as method, 'scored' as status, {scored.format(n=number)} from range(200) as t (i)"
    )
    measured = "20 as output_count, 20 as n, (hash(i, {n}) % 101) / 100 as mean, 0.3 as sd, 0.2 as ci_low"
    for table, columns, count in (
        ("run_scores", "", 2),
        ("criterion_scores", "'k' || i // 2 as criterion_id, ", 10),
        ("category_scores", "'a' || i // 2 as category, ", 4),
    ):
        connection.execute(
            f"insert into {table} by name {head}'m' || i % 2 as model, {columns}{measured.format(n=number)} "
            f"from range({count}) as t (i)"
        )
    connection.execute(
        f"insert into score_distribution by name {head}'m' || i % 2 as model, i / 40 as score, 1 as n, i / 40 as share "
        "from range(40) as t (i)"
    )
    connection.execute(
        f"insert into stage_costs by name {head}['ingest', 'plan', 'score', 'quality', 'aggregate'][i] as stage, "
        "0.1 as wall_s, 0.1 as cpu_s, 40 as row_count, 0.0 as cost_usd from range(1, 6) as t (i)"
    )


def _ask(catalog: str, query: str) -> float:
    command = [
        sys.executable,
        "-m",
        "gradebook.flows.cli",
        "sql",
        query,
        "--lake",
        f"sqlite:{catalog}",
        "--format",
        "csv",
    ]
    begin = time.perf_counter()
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if finished.returncode:
        sys.exit(finished.stderr)
    return time.perf_counter() - begin


def _run_as_child(given: argparse.Namespace) -> None:
    folder = Path(given.folder)
    begin = time.perf_counter()
    if given.part == "plain-child":
        ask_plainly(folder, given.memory)
    else:
        make_marts(folder, given.memory, given.criteria)
    inner_s = time.perf_counter() - begin
    sys.stdout.write(json.dumps({"inner_s": inner_s, "cpu_s": time.process_time(), "peak_mb": _peak_mb()}))


def _peak_mb() -> float:
    """Peak memory of this process; `getrusage` would include the size of its parent at the fork."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def main() -> None:
    """Run the requested part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["marts", "lake", "plain-child", "marts-child"])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--criteria", type=int, default=20)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--metadata", action="store_true", help="give outputs two metadata keys for slices")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--folder", help="folder for the files; some gigabytes for 100 million verdicts")
    given = parser.parse_args()
    parts = {"marts": bench_marts, "lake": bench_lake, "plain-child": _run_as_child, "marts-child": _run_as_child}
    parts[given.part](given)


if __name__ == "__main__":
    main()
