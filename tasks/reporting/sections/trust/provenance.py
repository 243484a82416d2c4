"""Findings on provenance: versions behind a run, and differences from earlier runs of its rubric version."""

from collections.abc import Iterator

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.comparing.judges import are_recorded
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import table_of
from gradebook.tasks.reporting.source.findings import Finding, Sign
from gradebook.tasks.reporting.source.report_source import ReportSource

DIGITS = 12  # shown of a digest
MOST_EARLIER = 20  # runs in the table

_OWN_IDENTITY = "select settings::json -> 'judge' as identity from runs where run_id = ?"


def provenance_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on the run's notes, its versions, and its differences from earlier runs."""
    run = source.summary.run
    notes = run["notes"] or []
    if notes:
        words = f"{counted(len(notes), 'note')} on the run: {'; '.join(notes)}."
        yield Finding(Sign.LOOK, "Notes", words)
    yield _versions(run)
    yield _earlier(source, run)


def _versions(run: Row) -> Finding:
    versions = (
        ("Code", f"gradebook {run['code_version'] or 'of an unknown version'}"),
        ("Rubric", f"{run['rubric_id']} {run['rubric_version']}, digest {run['rubric_digest'] or 'not recorded'}"),
        ("Judge", run["judge"] or "none"),
        ("Dataset", f"{run['dataset'] or 'not recorded'}, digest {run['dataset_digest'] or 'not recorded'}"),
        ("Table version", f"{run['version']}"),
    )
    words = (
        f"{versions[0][1]}; {run['rubric_id']} {run['rubric_version']}, digest {_short(run['rubric_digest'])}; judge "
        f"{versions[2][1]}; dataset digest {_short(run['dataset_digest'])}."
    )
    return Finding(Sign.FINE, "Versions", words, table_of("Versions", ("Part", "Version"), (), versions))


def _short(digest: str | None) -> str:
    return "not recorded" if digest is None else digest[:DIGITS]


def _earlier(source: ReportSource, run: Row) -> Finding:
    """Finding on differences from earlier runs in judge, outputs and code, which make means incomparable."""
    names = ("rubric_id", "rubric_version", "version")
    earlier = source.rows(query("reporting/earlier_runs"), **{name: run[name] for name in names})
    if not earlier:
        return Finding(Sign.FINE, "Earlier runs", "No earlier run used this rubric version.")
    (own,) = source.rows(_OWN_IDENTITY, source.run_id)
    marked = [_differences(run | own, before) for before in earlier]
    last, found = earlier[0], marked[0]
    words = f"{counted(len(earlier), 'earlier run')} of this rubric version. The last one, {last['run_id']}, had "
    words += f"{_listed(found)}." if found else "the same judge, outputs and code."
    other_judges = sum("another judge" in each or "other judge settings" in each for each in marked)
    if other_judges:
        words += (
            f" {other_judges:,} of them had another judge or other judge settings: their means are not comparable with "
            "those of this run."
        )
    lines = (
        (row["run_id"], row["judge"] or "none", row["dataset"] or "–", _listed(differences) or "nothing")
        for row, differences in zip(earlier[:MOST_EARLIER], marked, strict=False)
    )
    more = f", the last {MOST_EARLIER} of {len(earlier):,}" if len(earlier) > MOST_EARLIER else ""
    table = table_of(f"Earlier runs of this rubric version{more}", ("Run", "Judge", "Dataset", "Differs in"), (), lines)
    is_other = bool(found) and found != ["other outputs"]
    return Finding(Sign.LOOK if is_other or other_judges else Sign.FINE, "Earlier runs", words, table)


def _differences(run: Row, before: Row) -> list[str]:
    found = []
    if are_recorded(before["judge"], run["judge"]):
        pass
    elif before["judge"] != run["judge"]:
        found.append("another judge")
    elif before["identity"] != run["identity"]:
        found.append("other judge settings")
    if before["dataset_digest"] != run["dataset_digest"]:
        found.append("other outputs")
    if before["code_version"] != run["code_version"]:
        found.append("another version of gradebook")
    return found


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
