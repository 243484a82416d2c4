"""Similarities from stored vectors: pairs a second of a second run, whose vectors are all in the ledger.

python bench/similarity.py [--outputs 20000] [--dimensions 384]
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run
from gradebook.tasks.stages.submit import StagesInThreads
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import NOW
from tests.support.samples import write_lines

RUBRIC = """
id: like
version: 1.0.0
criteria:
  - {id: like_the_reference, description: Does it say what the reference says?, weight: 1, method: {type: similarity}}
"""
EMBEDDER = "model: m\ndimensions: {dimensions}\nbatch_size: 512\nprices: {{input_usd: 0.02, output_usd: 0}}\n"
STAGES = """
select run_id, sum(wall_s) filter (stage <> 'plan'), sum(cpu_s) filter (stage <> 'plan'), sum(cpu_s)
from stage_costs where stage in ('plan', 'embed', 'score') group by run_id order by run_id
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=int, default=20_000)
    parser.add_argument("--dimensions", type=int, default=384)
    given = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = "sk-bench"
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder, LoopbackJudge() as server:
        server.is_keeping_bodies = False
        os.environ["OPENAI_BASE_URL"] = server.base_url
        home = Path(folder)
        rows = [
            {"case_id": f"c{n}", "model": "m", "output": _sentence(rng), "reference": _sentence(rng)}
            for n in range(given.outputs)
        ]
        outputs = write_lines(home / "outputs.jsonl", rows)
        (home / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
        (home / "embedder.yaml").write_text(EMBEDDER.format(dimensions=given.dimensions), encoding="utf-8")
        lake = f"sqlite:{home}/lake/catalog.sqlite"
        for run_id in ("1_asked", "2_stored"):
            request = EvaluationRequest(
                str(outputs),
                str(home / "rubric.yaml"),
                embedder=str(home / "embedder.yaml"),
                lake=lake,
                run_id=run_id,
                has_page=False,
            )
            with opened_run(request, NOW) as run:
                complete_run(run, StagesInThreads())
        with connect(find_lake(lake), read_only=True) as connection:
            for run_id, wall_s, cpu_s, with_plan_s in connection.execute(STAGES).fetchall():
                paces = f"{given.outputs / cpu_s:,.0f} pairs a CPU second, {given.outputs / wall_s:,.0f} a second"
                planned = f"with the plan {given.outputs / with_plan_s:,.0f} a CPU second"
                print(f"{run_id}: {paces} ({wall_s:.2f} s wall, {cpu_s:.2f} s CPU); {planned}")
        print(f"{2 * given.outputs:,} texts of {given.dimensions} dimensions, {server.request_count:,} requests in all")


def _sentence(rng: random.Random) -> str:
    return " ".join(f"word{rng.randrange(5_000)}" for _ in range(12))


if __name__ == "__main__":
    main()
