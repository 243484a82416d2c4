"""Fuzzed runs under a budget: checks that the limit is never exceeded and that the accounts match the bill.

    python bench/judge_budget.py [--runs 1000] [--first-seed 0] [--threads 8]

Each run draws prices, sizes, service tiers, faults and two budgets, and sends a session's requests to a loopback
endpoint that computes its own bill. Prints violations, then counts; exits with 1 if there is a violation.
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
    """Run one seed in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return fuzz_budget(endpoint, seed, Path(folder))


def main() -> int:
    """Run all seeds; returns the exit code."""
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
        f"{len(faults)} violations\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
