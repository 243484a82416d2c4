"""Lint findings, differences and import summaries of rubrics, on stdout."""

from collections import Counter
from collections.abc import Sequence

from rich.markup import escape

from gradebook.flows.display.terminal import notes, people, plain
from gradebook.rubrics.files.semver import VersionStep, next_version, step_between
from gradebook.rubrics.lint.findings import LintFinding, Severity
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.rubric_store.files import ImportSummary
from gradebook.tasks.system.shell import shell_line

COLOURS: dict[Severity, str] = {"error": "red", "warning": "yellow", "note": "dim"}


def show_findings(found: Sequence[LintFinding], file_count: int) -> None:
    """Print each finding with its fix, and the number of findings."""
    for finding in found:
        where = finding.path if finding.line is None else f"{finding.path}:{finding.line}"
        colour = COLOURS[finding.severity]
        place = f"{finding.place}: " if finding.place else ""
        _print_finding(where, f"[{colour}]{finding.severity}[/] [bold]{finding.rule}[/]", f"{place}{finding.message}")
        people.print(f"    {escape(plain(finding.mend))}")
    files = counted(file_count, "rubric")
    if not found:
        people.print(f"[green]{files}, no faults found[/]")
        return
    counts = Counter(finding.severity for finding in found)
    totals = ", ".join(counted(counts[severity], severity) for severity in COLOURS)
    people.print(f"{files}: {totals}", highlight=False)


def show_difference(old: Rubric, new: Rubric, needed: VersionStep) -> None:
    """Print the changes, and the smallest version step for them."""
    people.print(f"[bold]{old.id} {old.version} -> {new.id} {new.version}[/]")
    for step, words in needed.reasons:
        people.print(f"  {step}: {escape(plain(words))}")
    if needed.step == "none":
        people.print("no change that affects the digest")
        return
    smallest = next_version(old.version, needed.step)
    taken = step_between(old.version, new.version)
    is_right = taken != "back" and _size(taken) >= _size(needed.step)
    verdict = "" if is_right else f"; [red]found {new.version}[/]"
    people.print(f"smallest allowed step: {needed.step}, {smallest} or later{verdict}")


def show_import(summary: ImportSummary) -> None:
    """Print the written files, the fields put into metadata, and the work left to do."""
    counts = (
        counted(summary.criterion_count, "criterion", "criteria"),
        counted(summary.case_count, "row"),
        counted(summary.rating_count, "rating"),
    )
    people.print(", ".join(counts), highlight=False)
    if summary.kept:
        people.print(f"stored in metadata: {escape(plain('; '.join(summary.kept)))}")
    for words in summary.unmatched[:10]:
        people.print(f"[yellow]unmatched:[/] {escape(plain(words))}")
    if len(summary.unmatched) > 10:
        people.print(f"[yellow]... and {len(summary.unmatched) - 10:,} more[/]")
    if summary.findings:
        people.print(
            f"lint finds {counted(len(summary.findings), 'fault')}: "
            f"{escape(plain(shell_line(('gradebook', 'rubric', 'lint', str(summary.written[0])))))}",
            soft_wrap=True,
        )
    for path in summary.written:
        notes.print(f"wrote {escape(plain(path))}", soft_wrap=True)


def show_lost(lost: Sequence[str]) -> None:
    """Print, on stderr, the fields without an equivalent in the other format."""
    for words in lost:
        notes.print(f"[yellow]lost:[/] {escape(plain(words))}", soft_wrap=True)


def _print_finding(where: str, kind: str, words: str) -> None:
    people.print(f"{escape(plain(where))}: {kind} {escape(plain(words))}")


def _size(step: str) -> int:
    return ("none", "patch", "minor", "major").index(step)
