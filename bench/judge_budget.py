"""Fuzzed runs under a budget: is the cap ever passed, and do the books say what was billed?

    python bench/judge_budget.py [--runs 1000] [--first-seed 0] [--threads 8]

Each run draws prices, sizes, service tiers, faults and two budgets, and asks a session against an endpoint on loopback
that bills by its own arithmetic. Prints what did not hold, then the counts; exits with 1 where something did not.
"""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.budget_fuzz import BillingEndpoint, Fuzzed, fuzz_budget  # noqa: E402


def fuzz(endpoint: BillingEndpoint, seed: int) -> Fuzzed:
    """One run, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return fuzz_budget(endpoint, seed, Path(folder))


def main() -> int:
    """Run them all; returns the exit code."""
    parser = argparse.ArgumentParser(description="Fuzzed runs under a budget.")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=8)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.runs)
    began = time.perf_counter()
    with BillingEndpoint() as endpoint, ThreadPoolExecutor(arguments.threads) as pool:
        fuzzed = list(pool.map(lambda seed: fuzz(endpoint, seed), seeds))
    faults = [fault for run in fuzzed for fault in run.faults]
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.stdout.write(
        f"{len(fuzzed)} runs, {sum(run.request_count for run in fuzzed)} requests, "
        f"{sum(run.is_stopped for run in fuzzed)} stopped, {time.perf_counter() - began:.0f} s; "
        f"{len(faults)} times something did not hold\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
