"""Lanes: the rows of a picture, one model each, under the headings of what they are about; who stands how high."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from gradebook.tasks.lake.rows import Row
from gradebook.tasks.reporting.drawing.charts import Rows, draw, shortened, told_apart
from gradebook.tasks.reporting.source.report_source import Group, ReportSource

LANE_UNITS = 17
HEADING_UNITS = 24
GAP_UNITS = 6  # between one heading's lanes and the next heading
MOST_LETTERS = 15  # of a model's name beside its lane
HEADING_LETTERS = 46  # of a heading and its note together
NOTE_LETTERS = 24


@dataclass
class Lanes:
    """The lanes of one picture, filled from the top. height: of what is laid out so far, in units of the picture.

    names: what stands beside each group's lanes. headings: y, text and note; labels: y and text; marks: the rows that
    `add` was given, each with its lane's y and model.
    """

    names: Mapping[Group, str]
    height: float = 0.0
    headings: list[Row] = field(default_factory=list)
    labels: list[Row] = field(default_factory=list)
    marks: list[Row] = field(default_factory=list)

    def head(self, text: str, note: str = "") -> None:
        """Begin the lanes of one thing. note: what stands after its name, softly."""
        self.height += GAP_UNITS if self.height else 0
        note = shortened(note, NOTE_LETTERS)
        heading = shortened(text, HEADING_LETTERS - len(note))
        self.headings.append({"y": self.height + HEADING_UNITS / 2, "text": heading, "note": note})
        self.height += HEADING_UNITS

    def add(self, group: Group, marks: Iterable[Row]) -> None:
        """One model's lane with its marks."""
        y = self.height + LANE_UNITS / 2
        self.labels.append({"y": y, "text": self.names[group]})
        self.marks += [{"y": y, "model": group.label, **mark} for mark in marks]
        self.height += LANE_UNITS

    def drawn(self, chart: str, **values: object) -> Markup:
        """The picture: `rows`, `headings` and `labels` by a specification that is `$height` units high."""
        rows: Rows = {"rows": self.marks, "headings": self.headings, "labels": self.labels}
        models, colours = [group.label for group in self.names], [group.colour for group in self.names]
        return draw(chart, rows, height=self.height, models=models, colours=colours, **values)


def told_names(groups: Sequence[Group]) -> dict[Group, str]:
    """Each group's name without what all have in common: one checkpoint or one model."""
    checkpoints, models = ({group.checkpoint for group in groups}, {group.model for group in groups})
    if len(checkpoints) == 1:
        return {group: group.model for group in groups}
    is_one_model = len(models) == 1 and None not in checkpoints
    return {group: f"@ {group.checkpoint}" if is_one_model else group.name for group in groups}


def lane_names(groups: Sequence[Group]) -> dict[Group, str]:
    """Each group's name as there is room for it beside a lane or a curve, and told apart."""
    told = told_names(groups)
    return dict(zip(told, told_apart(told.values(), MOST_LETTERS), strict=True))


def by_group(source: ReportSource, rows: Iterable[Row]) -> dict[Group, Row]:
    """Rows with a model and a checkpoint by their group, in the order of the groups."""
    found = {source.group_of(row): row for row in rows}
    return {group: found[group] for group in source.groups if group in found}
