"""Segments of a criterion's scale: its levels and the gaps between them, or bands of scores."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradebook.tasks.lake.rows import Row

BAND_COUNT = 5


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a criterion's scale. place: 0 for the lowest level or band, 1 for the next one, 0.5 between the two."""

    name: str
    place: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of a criterion's verdicts: its levels or, if `levels` is empty, bands of scores.

    levels: ids, lowest score first. segments: in the same order, including empty ones.
    """

    levels: tuple[str, ...]
    segments: tuple[Segment, ...]

    @property
    def level_names(self) -> tuple[str, ...]:
        """Display names of the levels or bands, lowest score first, without the gaps between levels."""
        return tuple(segment.name for segment in self.segments if segment.place in range(self.step_count + 1))

    @property
    def step_count(self) -> int:
        """Place of the highest level or band."""
        return (len(self.levels) or BAND_COUNT) - 1

    def counts(self, rows: Iterable[Row]) -> dict[Segment, int]:
        """Count of outputs in each segment. rows: of one model, from sql/queries/reporting/level_counts.sql."""
        found: Counter[float] = Counter()
        for row in rows:
            found[_place(row, self.levels)] += row["n"]
        return {segment: found[segment.place] for segment in self.segments}


def read_scale(levels: Sequence[Row], rows: Sequence[Row]) -> Scale:
    """Scale of a criterion. levels: its rows of `levels`, worst first; if empty, the levels of its verdicts are used.

    rows: of all models, from sql/queries/reporting/level_counts.sql. If most verdicts have no level, bands are used.
    """
    names = {level["level_id"]: level["label"] or level["level_id"] for level in levels} or _named(rows)
    with_level = sum(row["n"] for row in rows if row["level_id"] in names)
    if not names or 2 * with_level < sum(row["n"] for row in rows):
        return Scale((), tuple(Segment(_band_name(band), band) for band in range(BAND_COUNT)))
    ids = tuple(names)
    places = {*range(len(ids)), *(_place(row, ids) for row in rows)}
    return Scale(ids, tuple(Segment(_name(place, tuple(names.values())), place) for place in sorted(places)))


def _named(rows: Sequence[Row]) -> dict[str, str]:
    """Levels named by verdicts, ordered by score: the levels of per-case criteria are not in the table `levels`."""
    scores: dict[str, float] = {}
    for row in rows:
        if row["level_id"] is not None:
            scores[row["level_id"]] = min(row["score"], scores.get(row["level_id"], row["score"]))
    return {level: level for level in sorted(scores, key=lambda level: (scores[level], level))}


def _place(row: Row, ids: tuple[str, ...]) -> float:
    if not ids:
        return float(row["band"])
    if row["level_id"] in ids:
        return float(ids.index(row["level_id"]))
    is_known = row["level_id"] is None and row["place"] is not None
    return float(row["place"]) if is_known else float(len(ids))  # above all other levels


def _name(place: float, names: tuple[str, ...]) -> str:
    if place == len(names):
        return "another level"
    if place < 0:
        return f"below {names[0]}"
    if place > len(names) - 1:
        return f"above {names[-1]}"
    index = int(place)
    return names[index] if place == index else f"between {names[index]} and {names[index + 1]}"


def _band_name(band: int) -> str:
    return f"{band / BAND_COUNT:g} to {(band + 1) / BAND_COUNT:g}"
