"""CPU of a test run, in seconds of all processes, beside what it usually takes; more is a failure only where asked.

What it usually takes grows with `slowness`, which is read again and again during the run.
"""

import json
import math
import os
import resource
import time
from collections.abc import Generator
from pathlib import Path
from statistics import mean

import pytest

TOLERATED = 4 / 3  # times the budget
_SHOWN_COUNT = 10
_LOOP = 10_000
_LOOP_S = 0.025  # CPU of the loop on the machine for which budgets are given
_READ_EVERY_S = 20
_slowness_by_time: dict[float, float] = {}
_seconds_by_test: dict[str, float] = {}
_wall_by_test: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-budget", type=float, metavar="SECONDS", help="CPU that the run usually takes, to compare")
    parser.addoption(
        "--enforce-cpu-budget", action="store_true", help="fail when the run takes more than a third beyond the budget"
    )
    parser.addoption(
        "--cpu-log", type=Path, metavar="FILE", help="write the CPU and wall seconds of every test, dearest first"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_BEGUN] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown":
        report.user_properties.append(("cpu_s", cpu_seconds() - item.stash[_BEGUN]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    read_at = next(reversed(_slowness_by_time), -math.inf)
    if "PYTEST_XDIST_WORKER" not in os.environ and time.monotonic() - read_at > _READ_EVERY_S:
        _slowness_by_time[time.monotonic()] = slowness()
    _wall_by_test[report.nodeid] = _wall_by_test.get(report.nodeid, 0.0) + report.duration
    if seconds := dict(report.user_properties).get("cpu_s"):
        _seconds_by_test[report.nodeid] = float(str(seconds))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare with the budget once pytest-xdist has ended its workers: they are children of this process."""
    if hasattr(session.config, "workerinput"):
        return
    if log := session.config.getoption("--cpu-log"):
        lines = [f"{seconds:.3f}\t{_wall_by_test[test]:.3f}\t{test}\n" for test, seconds in _dearest()]
        log.write_text("".join(lines), encoding="utf-8")
    budget, is_enforced = _budget_s(session.config), session.config.getoption("--enforce-cpu-budget")
    is_over = budget is not None and cpu_seconds() > TOLERATED * budget
    if is_over and is_enforced and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    budget = _budget_s(config)
    if budget is None:
        return
    used = cpu_seconds()
    terminalreporter.write_line(
        f"CPU of all processes: {used:.0f} s, usually {budget:.0f} s where the machine is {_mean_slowness():.1f} "
        "times slower than planned"
    )
    if used > TOLERATED * budget:
        terminalreporter.write_line("More than a third beyond that. The dearest tests:", red=True)
        for test, seconds in _dearest()[:_SHOWN_COUNT]:
            terminalreporter.write_line(f"  {seconds:6.1f} s  {test}")


def cpu_seconds() -> float:
    """CPU of this process and of those children that have ended."""
    usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def slowness() -> float:
    """Times that this machine is slower at the moment than the one for which budgets are given, at least 1."""
    began = time.process_time()
    for number in range(_LOOP):
        json.loads(json.dumps({"number": number}))
    return max(1.0, (time.process_time() - began) / _LOOP_S)


def _budget_s(config: pytest.Config) -> float | None:
    """CPU seconds that this run usually takes on this machine; None without a budget."""
    planned = config.getoption("--cpu-budget")
    return None if planned is None else planned * _mean_slowness()


def _mean_slowness() -> float:
    return mean(_slowness_by_time.values()) if _slowness_by_time else 1.0


def _dearest() -> list[tuple[str, float]]:
    return sorted(_seconds_by_test.items(), key=lambda pair: -pair[1])


_BEGUN = pytest.StashKey[float]()
