"""Pages of the rubrics: all of them, and one version as a grid of criteria and levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import duckdb
from starlette.requests import Request
from starlette.routing import Route

from gradebook.rubrics.files.load import read_rubric, shipped_rubrics
from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import InputError, RubricError
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.text.wording import score_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.site import version_changes
from gradebook.tasks.viewing.frame import Frame

_BODY = "select body from rubrics where rubric_id = ? and rubric_version = ?"


def routes(frame: Frame) -> list[Route]:
    """Addresses of the list, and of a rubric; `?version=` names one that is not the newest."""

    def rubrics(_request: Request) -> str:
        page = frame.at_version(read_rubric_list)
        files = () if frame.editing is None else frame.editing.folder.names()
        return frame.render("rubrics.html.j2", "Rubrics · gradebook", page=page, files=files)

    def rubric(request: Request) -> str:
        name, version = request.path_params["rubric_id"], request.query_params.get("version")
        page = frame.at_version(read_rubric_page, name, version)
        return frame.render("rubric.html.j2", f"{name} · gradebook", page=page)

    return [frame.route("/rubrics", rubrics), frame.route("/rubrics/{rubric_id}", rubric)]


@dataclass(frozen=True, slots=True)
class RubricList:
    """Rubrics of a lake and the shipped ones.

    stored: rows of rubric_store/versions for the newest version of each, with version_count; run_count and last_used_at
    are of all its versions.
    """

    stored: tuple[Row, ...]
    shipped: tuple[str, ...]


def read_rubric_list(lake: Lake) -> RubricList:
    """Read the list of rubrics."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        versions = read_rows(connection, query("rubric_store/versions"))
    of_rubrics: dict[str, list[Row]] = {}
    for row in versions:
        of_rubrics.setdefault(row["rubric_id"], []).append(row)
    stored = tuple(_rubric_row(rows) for rows in of_rubrics.values())
    return RubricList(stored, tuple(name for name in shipped_rubrics() if name not in of_rubrics))


def _rubric_row(versions: Sequence[Row]) -> Row:
    """Newest version of a rubric with the runs of all. versions: newest first."""
    used = [row["last_used_at"] for row in versions if row["last_used_at"] is not None]
    counts = {"run_count": sum(row["run_count"] for row in versions), "version_count": len(versions)}
    return versions[0] | counts | {"last_used_at": max(used, default=None)}


@dataclass(frozen=True, slots=True)
class LevelCell:
    """Level of a criterion, as texts. share: its score, 0..1, for the colour."""

    level_id: str
    name: str
    score: str
    share: float
    description: str
    indicators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CriterionRow:
    """Criterion with its levels, the best first, and its means in the last run of the version.

    weight: or "gate"; means: model and mean.
    """

    criterion_id: str
    name: str
    question: str
    category: str
    method: str
    weight: str
    threshold: str
    reason: str
    levels: tuple[LevelCell, ...]
    means: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RubricPage:
    """One version of a rubric.

    versions: rows of rubric_store/versions, newest first, empty for a shipped rubric that the lake does not have.
    changes: sentences on what this version changed. level_count: columns of the grid. rubric: None if this version of
    gradebook can't read it. last_run: id of the last published run of this version.
    """

    rubric_id: str
    version: str
    row: Row | None
    rubric: Rubric | None
    versions: tuple[Row, ...]
    changes: tuple[str, ...]
    criteria: tuple[CriterionRow, ...]
    level_count: int
    last_run: str | None


def read_rubric_page(lake: Lake, rubric_id: str, version: str | None = None) -> RubricPage:
    """Read a version of a rubric; None: the newest of the lake, else the shipped one. Raises `InputError`."""
    with connect_up_to_date(lake, is_pinned=True) as connection:
        every_version = read_rows(connection, query("rubric_store/versions"))
        versions = tuple(row for row in every_version if row["rubric_id"] == rubric_id)
        if not versions:
            return _shipped_page(rubric_id, version)
        index = next((i for i, row in enumerate(versions) if version in (None, row["rubric_version"])), None)
        if index is None:
            known = ", ".join(row["rubric_version"] for row in versions[:20])
            raise InputError("version", f"{version} of {rubric_id}", f"one of {known}")
        row = versions[index]
        rubric = _read_rubric(connection, rubric_id, row["rubric_version"])
        older = versions[index + 1]["rubric_version"] if index + 1 < len(versions) else None
        before = None if older is None else _read_rubric(connection, rubric_id, older)
        keys = {"rubric_id": rubric_id, "rubric_version": row["rubric_version"]}
        means = read_rows(connection, query("viewing/last_means"), **keys)
    changes = version_changes(before, rubric)
    return _page(rubric_id, row["rubric_version"], row, rubric, versions, changes, means)


def _shipped_page(rubric_id: str, version: str | None) -> RubricPage:
    if rubric_id not in shipped_rubrics():
        raise InputError("rubric", rubric_id[:200], "a rubric that the lake stores, or a shipped one")
    rubric = read_rubric(rubric_id)
    if version not in (None, rubric.version):
        raise InputError("version", f"{version} of {rubric_id}", rubric.version)
    return _page(rubric_id, rubric.version, None, rubric, (), (), ())


def _read_rubric(connection: duckdb.DuckDBPyConnection, rubric_id: str, version: str) -> Rubric | None:
    """Rubric of the lake; None if this version of gradebook can't read it."""
    for (body,) in connection.execute(_BODY, [rubric_id, version]).fetchall():
        try:
            return rubric_from_body(body)
        except RubricError:
            return None
    return None


def _page(
    rubric_id: str,
    version: str,
    row: Row | None,
    rubric: Rubric | None,
    versions: tuple[Row, ...],
    changes: tuple[str, ...],
    means: tuple[Row, ...],
) -> RubricPage:
    by_criterion: dict[str, list[tuple[str, str]]] = {}
    for mean in means:
        by_criterion.setdefault(mean["criterion_id"], []).append((mean["model"], score_words(mean["mean"])))
    criteria = () if rubric is None else criterion_rows(rubric, by_criterion)
    level_count = max((len(criterion.levels) for criterion in criteria), default=0)
    last_run = means[0]["run_id"] if means else None
    return RubricPage(rubric_id, version, row, rubric, versions, changes, criteria, level_count, last_run)


def criterion_rows(
    rubric: Rubric, means: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})
) -> tuple[CriterionRow, ...]:
    """Criteria of a rubric as rows of the grid. means: model and mean by criterion."""
    return tuple(_criterion_row(criterion, means.get(criterion.id, ())) for criterion in rubric.criteria)


def _criterion_row(criterion: Criterion, means: Sequence[tuple[str, str]]) -> CriterionRow:
    levels = tuple(
        LevelCell(
            level.id,
            level.label or level.id,
            f"{level.score:g}",
            level.score,
            level.description or "",
            tuple(level.indicators),
        )
        for level in reversed(criterion.ranked_levels)
    )
    return CriterionRow(
        criterion.id,
        criterion.name or criterion.id,
        criterion.description,
        criterion.category or "",
        criterion.method.type,
        "gate" if criterion.gate else f"{criterion.own_weight:g}",
        "" if criterion.threshold is None else score_words(criterion.threshold),
        criterion.rationale or "",
        levels,
        tuple(means),
    )
