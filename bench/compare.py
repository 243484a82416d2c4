"""Time of `gradebook compare` for two runs of one rubric: 100,000 paired outputs, 10,000 resamples per figure.

    python bench/compare.py [--n 100000] [--criteria 5] [--samples 1]

--samples: outputs per case; with several, intervals count cases. Makes a lake of two published runs with random scores,
then runs the command as a user would, including the start of Python and the reading of the lake.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from gradebook.rubrics.files.case_criteria import CASE_CRITERIA_SCHEMA
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake
from tests.support.scored_lake import VERDICT_SCHEMA, make_lake, write_run

ROOT = Path(__file__).parents[1]
SEED = 20261121
LEVELS = np.array([0.0, 0.5, 1.0])
SHIFT = {"a": (0.2, 0.3, 0.5), "b": (0.19, 0.3, 0.51)}


def write_side(lake: Lake, name: str, rubric: Rubric, count: int, sample_count: int) -> None:
    """Publish one run: outputs of `count / sample_count` cases, each with one level per criterion."""
    rng = np.random.default_rng([SEED, ord(name)])
    numbers = np.arange(count)
    ids = pa.array([f"{name}{number:031d}" for number in numbers])
    outputs = pa.table(
        {
            "output_id": ids,
            "case_id": pa.array([f"case-{number // sample_count:07d}" for number in numbers]),
            "model": pa.array(["m"] * count),
            "checkpoint": pa.nulls(count, pa.string()),
            "sample_index": pa.array((numbers % sample_count).astype(np.int32)),
        }
    )
    verdicts = [
        pa.table(
            {
                "output_id": ids,
                "criterion_id": pa.array([criterion.id] * count),
                "status": pa.array(["scored"] * count),
                "score": pa.array(rng.choice(LEVELS, count, p=SHIFT[name])),
                "reason": pa.nulls(count, pa.string()),
            },
            schema=VERDICT_SCHEMA,
        )
        for criterion in rubric.criteria
    ]
    write_run(lake, name, rubric, outputs, pa.concat_tables(verdicts), CASE_CRITERIA_SCHEMA.empty_table())


def make_rubric(criterion_count: int) -> Rubric:
    """Rubric of criteria with three levels, weighted so that there are many different overall scores."""
    levels = [{"id": f"l{index}", "score": score, "description": "x"} for index, score in enumerate(LEVELS.tolist())]
    shared = {"description": "?", "levels": levels, "method": {"type": "ratings"}}
    criteria = [
        {"id": f"c{number}", "weight": 1 + number / 7, "category": "ab"[number % 2]} | shared
        for number in range(criterion_count)
    ]
    return Rubric.model_validate({"id": "bench", "version": "1.0.0", "pass_threshold": 0.5, "criteria": criteria})


def main() -> None:
    """Make the lake and time the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--criteria", type=int, default=5)
    parser.add_argument("--samples", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = make_lake(Path(folder))
        for name in "ab":
            write_side(lake, name, make_rubric(given.criteria), given.n, given.samples)
        command = [sys.executable, "-m", "gradebook.flows.cli", "compare", "a", "b", "--json"]
        command += ["--lake", f"sqlite:{lake.address}"]
        times_s = []
        for _ in range(3):
            begin = time.perf_counter()
            finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            times_s.append(time.perf_counter() - begin)
            if finished.returncode:
                sys.exit(finished.stderr)
    (overall,) = json.loads(finished.stdout)["overall"]
    span = f"{overall['diff_low']:+.5f}..{overall['diff_high']:+.5f}"
    boot = f"{overall['boot_low']:+.5f}..{overall['boot_high']:+.5f}"
    print(f"mean difference {overall['mean_diff']:+.5f}, t {span}, bootstrap {boot}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{(used.ru_utime + used.ru_stime) / len(times_s):.1f} s CPU, peak {used.ru_maxrss / 1024:,.0f} MB")
    print(
        f"{overall['n']:,} pairs of {overall['case_count']:,} cases, {given.criteria} criteria, 10,000 resamples: "
        f"{min(times_s):.1f} s (of {', '.join(f'{each:.1f}' for each in times_s)})"
    )


if __name__ == "__main__":
    main()
