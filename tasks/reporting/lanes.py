"""Lanes of a picture: one row per model under each heading, with vertical positions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.charts import Rows, distinct_labels, draw, shortened
from gradebook.tasks.reporting.report_source import Group, ReportSource

LANE_UNITS = 17
HEADING_UNITS = 24
GAP_UNITS = 6  # between the lanes of a heading and the next heading
MOST_LETTERS = 15  # of a model's name next to its lane
HEADING_LETTERS = 46  # of a heading with its note
NOTE_LETTERS = 24


@dataclass
class Lanes:
    """Lanes of a picture, filled from the top. height: of all lanes so far, in units of the picture.

    names: label of each group's lanes. headings: y, text and note; labels: y and text; marks: rows given to `add`, with
    the y and model of their lane.
    """

    names: Mapping[Group, str]
    height: float = 0.0
    headings: list[Row] = field(default_factory=list)
    labels: list[Row] = field(default_factory=list)
    marks: list[Row] = field(default_factory=list)

    def head(self, text: str, note: str = "") -> None:
        """Begin a group of lanes with a heading. note: shown after the heading in a soft colour."""
        self.height += GAP_UNITS if self.height else 0
        note = shortened(note, NOTE_LETTERS)
        heading = shortened(text, HEADING_LETTERS - len(note))
        self.headings.append({"y": self.height + HEADING_UNITS / 2, "text": heading, "note": note})
        self.height += HEADING_UNITS

    def add(self, group: Group, marks: Iterable[Row]) -> None:
        """Add a model's lane with its marks."""
        y = self.height + LANE_UNITS / 2
        self.labels.append({"y": y, "text": self.names[group]})
        self.marks += [{"y": y, "model": group.label, **mark} for mark in marks]
        self.height += LANE_UNITS

    def drawn(self, chart: str, **values: object) -> Markup:
        """Draw the lanes with a specification that reads `rows`, `headings`, `labels` and `$height`."""
        rows: Rows = {"rows": self.marks, "headings": self.headings, "labels": self.labels}
        models, colours = [group.label for group in self.names], [group.colour for group in self.names]
        return draw(chart, rows, height=self.height, models=models, colours=colours, **values)


def short_names(groups: Sequence[Group]) -> dict[Group, str]:
    """Name of each group without the part that all groups share: a single checkpoint or a single model."""
    checkpoints, models = ({group.checkpoint for group in groups}, {group.model for group in groups})
    if len(checkpoints) == 1:
        return {group: group.model for group in groups}
    is_one_model = len(models) == 1 and None not in checkpoints
    return {group: f"@ {group.checkpoint}" if is_one_model else group.name for group in groups}


def lane_names(groups: Sequence[Group]) -> dict[Group, str]:
    """Short, distinct name of each group, for a lane or a curve."""
    names = short_names(groups)
    return dict(zip(names, distinct_labels(names.values(), MOST_LETTERS), strict=True))


def by_group(source: ReportSource, rows: Iterable[Row]) -> dict[Group, Row]:
    """Rows by group, in the order of the groups. rows: with model and checkpoint."""
    row_of = {source.group_of(row): row for row in rows}
    return {group: row_of[group] for group in source.groups if group in row_of}
