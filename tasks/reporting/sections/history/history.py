"""The scores of the run's models over earlier runs: a line where runs can be compared, a break where they can't."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradebook.tasks.reporting.drawing.figures import Figure, Table, table_of
from gradebook.tasks.reporting.sections.history.criterion_history import LEAST_CHANGE, criterion_figure
from gradebook.tasks.reporting.sections.history.history_figures import drawn_history, series_of
from gradebook.tasks.reporting.source.dates import Moment, Moments, read_criterion_means, read_moments, stretch
from gradebook.tasks.reporting.source.report_source import MOST_DRAWN, ReportSource
from gradebook.tasks.system.number_format import counted, score_words, signed_words

MOST_TOLD = 3  # models in a sentence


@dataclass(frozen=True, slots=True)
class HistoryContents:
    """The means over time, and those of the criteria."""

    figures: tuple[Figure, ...]


def read_history(source: ReportSource) -> HistoryContents | None:
    """What the run's models scored before; None where there is one moment of each alone."""
    moments = read_moments(source)
    if not any(moment.before for moment in moments.values()):
        return None
    svg = drawn_history(source, moments)
    figures = (
        None
        if svg is None
        else Figure("history-means", "Mean score over time", _reading(source, moments), svg, _table(moments)),
        criterion_figure(source, moments, read_criterion_means(source, moments)),
    )
    return HistoryContents(tuple(figure for figure in figures if figure is not None))


def _reading(source: ReportSource, moments: Moments) -> str:
    """How the models with the highest means came to where they are, and what keeps others from being compared."""
    present = [moments[source.run_id, group.model, group.checkpoint] for group in source.groups]
    known = [moment for moment in present if moment.mean is not None]
    words = [_path_words(stretch(moments, moment), _is_told_apart(known, moment)) for moment in known[:MOST_TOLD]]
    if len(known) > MOST_TOLD:
        words.append(f"{counted(len(known) - MOST_TOLD, 'more stands', 'more stand')} in the table.")
    if len(series_of(source)) < len({group.model for group in source.groups}):
        words.append(f"The {MOST_DRAWN} models with the highest means are drawn.")
    return " ".join([*words, *_break_words(moments)]) or "No run has a mean."


def _is_told_apart(moments: Sequence[Moment], wanted: Moment) -> bool:
    """Whether a model's name alone says which one is meant."""
    return sum(moment.model == wanted.model for moment in moments) == 1


def _path_words(path: Sequence[Moment], is_told_apart: bool) -> str:
    """A model's way from the oldest mean that its last one can be compared with."""
    last, scored = path[-1], [moment for moment in path if moment.mean is not None]
    name = last.model if is_told_apart or last.checkpoint is None else f"{last.model} @ {last.checkpoint}"
    mean = score_words(last.mean)
    if len(scored) < 2 or last.mean is None:
        return f"{name} stands at {mean}; no run before can be compared with it."
    first, before = scored[0], scored[-2]
    change, begin = last.mean - (first.mean or 0.0), score_words(first.mean)
    is_still = begin == mean or abs(change) < LEAST_CHANGE
    way = "stayed at" if is_still else "rose from" if change > 0 else "fell from"
    words = f"{name} {way} {begin} ({_when(first, last)})"
    words += "" if is_still else f" to {mean} ({_when(last, first)})"
    if len(scored) == 2:
        return f"{words}."
    return f"{words}; the last change is {signed_words(last.mean - (before.mean or 0.0))}."


def _when(moment: Moment, other: Moment) -> str:
    """Which of two moments is meant: its run, or its checkpoint where both are of one run."""
    return moment.run_id if moment.run_id != other.run_id else moment.checkpoint or moment.run_id


def _break_words(moments: Moments) -> Iterator[str]:
    """What changed where, the last first; the same change of several models once."""
    newest_first = reversed(list(moments.values()))
    found = dict.fromkeys((moment.run_id, _change_words(moment)) for moment in newest_first if moment.changes)
    told = [f"{words} at {run_id}" for run_id, words in list(found)[:MOST_TOLD]]
    if told:
        more = f", and so on at {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
        yield f"Not joined where something else changed: {'; '.join(told)}{more}."


def _change_words(moment: Moment) -> str:
    return " and ".join(moment.changes.values())


def _table(moments: Moments) -> Table:
    """All moments, the newest first."""
    return table_of(
        "Means over time, the newest first; change: since the run before, where the two can be compared",
        ("Run", "Finished, UTC", "Model", "Checkpoint", "Rubric", "Judge", "What else changed"),
        ("Mean", "95% interval", "Change", "Scored"),
        (_cells(moments, moment) for moment in reversed(list(moments.values()))),
    )


def _cells(moments: Moments, moment: Moment) -> tuple[str, ...]:
    earlier = None if moment.before is None or moment.changes else moments[moment.before].mean
    change = None if moment.mean is None or earlier is None else moment.mean - earlier
    interval = "–" if moment.low is None else f"{score_words(moment.low)} to {score_words(moment.high)}"
    return (
        moment.run_id,
        "" if moment.finished_at is None else moment.finished_at.strftime("%Y-%m-%d %H:%M"),
        moment.model,
        moment.checkpoint or "",
        moment.rubric_version,
        moment.judge or "none",
        _change_words(moment),
        score_words(moment.mean),
        interval,
        signed_words(change),
        f"{moment.n:,}",
    )
