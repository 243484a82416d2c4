"""Tables of agreement and calibration, on stdout."""

from collections import Counter
from collections.abc import Iterator, Sequence

from gradebook.flows.display.terminal import people, plain, say, show_rows
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.calibration import Estimate
from gradebook.rubrics.statistics.davidson import Strength
from gradebook.rubrics.statistics.judge_beside_people import WITH_GAPS
from gradebook.rubrics.statistics.rater_comparison import RaterComparison
from gradebook.tasks.agreement.calibration import Calibration, RunCalibration
from gradebook.tasks.agreement.compare_judges import JudgeChoice, JudgeChoices
from gradebook.tasks.agreement.mart import JUDGE_RATERS, JUDGES, RATERS
from gradebook.tasks.agreement.preferences import EQUAL, Preference
from gradebook.tasks.agreement.published_run import AgreementPart, RunAgreement
from gradebook.tasks.agreement.rankings import JUDGE, PEOPLE, SCORES, ModelRanking
from gradebook.tasks.agreement.raters import ModelMean, RaterPace, RaterRow, RunRaters
from gradebook.tasks.agreement.settled_labels import SettledCriterion
from gradebook.tasks.agreement.steps import StepAgreement
from gradebook.tasks.comparing.sentences import each_once
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.system.number_format import price_words, with_interval

TITLES = {
    RATERS: "raters among themselves",
    JUDGE_RATERS: "judge against raters",
    JUDGES: "judges among themselves",
}
SHOWN = {  # statistic -> heading, what matters most first, as a narrow terminal shows only the first ones
    "alpha_ordinal": "alpha, ordinal",
    "bias": "bias",
    "percent_agreement": "agreement",
    "cohen_kappa_quadratic": "kappa, quadratic",
    "gwet_ac1": "AC1",
    "spearman": "Spearman",
}
UNKNOWN = "–"
SURE = 0.95
_WHOSE = {
    PEOPLE: "people's choices on {}",
    JUDGE: "the judge's preferences on {}",
    SCORES: "overall scores, case by case",
}


def show_agreement(found: RunAgreement, by: str | None, *, is_full: bool) -> None:
    """Print one table for each kind of pairs, each figure with its 95% interval.

    by: `rater` or `judge` for one row each, None for all together. is_full: also print every statistic, the reasons for
    missing ones, and the confusion matrices.
    """
    _show_run(found.run)
    if found.note:
        say(f"note: {plain(found.note)}")
    parts = [part for part in found.parts if _is_by(part, by)]
    if found.parts and not parts:
        say(f"nothing to compare by {by}: {_why_nothing(found, by)}")
    for kind, title in TITLES.items():
        of_kind = [part for part in parts if part.kind == kind]
        if of_kind:
            people.print()
            say(f"{title}, with 95% intervals")
            who = () if by is None else ("who",)
            known = [name for name in SHOWN if any(part.measure(name).value is not None for part in of_kind)]
            headings = ("criterion", *who, "outputs", *(SHOWN[name] for name in known), "pairs")
            show_rows(headings, (_cells(part, known) for part in of_kind))
            for part in of_kind:
                _show_gaps(part)
    if found.preferences:
        people.print()
        say("people's preferences, with 95% intervals; B preferred: a tie counts as half; judge: prefers the same side")
        headings = ("criterion", "A", "B", "choices", "A", "tie", "B", "B preferred", "judge")
        show_rows(headings, map(_preference_cells, found.preferences))
    for ranked in found.rankings:
        _show_ranking(ranked)
    _show_parts(found, is_full=is_full)
    for part in parts if is_full else ():
        _show_in_full(part)


def _show_claims(claims: Sequence[StepAgreement]) -> None:
    """Print a row for each criterion of claims and kind of pairs."""
    people.print()
    say("claims, with 95% intervals over cases; found: of the claims that a rater did not mark as supported")
    headings = ("criterion", "who", "claims", "cases", "agreement", "kappa", "found", "same verdict")
    show_rows(headings, map(_step_cells, claims))


def _show_parts(found: RunAgreement, *, is_full: bool) -> None:
    """Print the agreement on parts of outputs: steps and claims."""
    if found.steps:
        _show_steps(found.steps, is_full=is_full)
    if found.claims:
        _show_claims(found.claims)


def _show_steps(steps: Sequence[StepAgreement], *, is_full: bool) -> None:
    """Print a row for each criterion of steps and kind of pairs. is_full: also the pairs of error types."""
    people.print()
    say("steps of agents, with 95% intervals over cases; found: of one's steps below the best label, by the other")
    headings = ("criterion", "who", "steps", "cases", "agreement", "kappa", "found", "same error type")
    show_rows(headings, map(_step_cells, steps))
    for each in steps if is_full else ():
        people.print()
        say(f"errors of steps, {TITLES[each.kind]}")
        one, other = _SIDES[each.kind]
        rows = ((*(kind or "no error" for kind in kinds), f"{count:,}") for *kinds, count in each.error_pairs)
        show_rows((one, other, "marks"), rows)


_SIDES = {RATERS: ("rater", "other"), JUDGE_RATERS: ("judge", "rater"), JUDGES: ("vote", "other")}
_WHO = {RATERS: "raters", JUDGE_RATERS: "judge", JUDGES: "judges"}


def _step_cells(found: StepAgreement) -> tuple[str, ...]:
    figures = (found.percent_agreement, found.kappa, found.found_rate, found.same_type_rate)
    return (
        found.criterion_id,
        _WHO[found.kind],
        f"{found.n:,}",
        f"{found.case_count:,}",
        *map(_with_interval, figures),
    )


def _preference_cells(found: Preference) -> tuple[str, ...]:
    names = (
        " @ ".join(filter(None, side))
        for side in ((found.model_a, found.checkpoint_a), (found.model_b, found.checkpoint_b))
    )
    counts = (found.choice_count, found.a_count, found.tie_count, found.b_count)
    shares = (_with_interval(found.b_share), _with_interval(found.judge))
    return (found.criterion_id, *names, *(f"{count:,}" for count in counts), *shares)


def _show_ranking(found: ModelRanking) -> None:
    whose = _WHOSE[found.source].format(found.criterion_id)
    ties = f"; up to {found.tie_margin:.3f} is a tie" if found.tie_margin and found.tie_margin > EQUAL else ""
    people.print()
    say(f"strength of models by {whose}{ties} (Davidson: log odds against the average)")
    adjusted = found.at_equal_length
    rows = []
    for place, (name, each) in enumerate(zip(found.models, found.ranking.strengths, strict=True)):
        cells = (_with_interval(each), UNKNOWN if each.elo is None else f"{each.elo:,.0f}", f"{each.choice_count:,}")
        even = None if adjusted is None else adjusted.strengths[place].value
        rows.append((name, *cells, UNKNOWN if even is None else f"{even:.3f}"))
    show_rows(("model", "strength", "Elo", "choices", "at equal length"), rows)
    if found.ranking.reason:
        say(f"note: {plain(found.ranking.reason)}")


def show_calibration(found: RunCalibration) -> None:
    """Print one row for each criterion and model: four estimates of the mean, and the ratings needed to halve it."""
    _show_run(found.run)
    if found.note:
        say(f"note: {plain(found.note)}")
    if found.rows:
        people.print()
        say("means with 95% intervals; corrected: PPI++, from ratings and judge together")
        headings = (
            "criterion",
            "model",
            "rated",
            "unrated",
            "corrected",
            "ratings alone",
            "judge alone",
            "Rogan-Gladen",
        )
        show_rows((*headings, "to halve it"), map(_calibration_cells, found.rows))
    for note in each_once(_notes(found)):
        say(f"note: {plain(note)}")
    if found.next_outputs:
        people.print()
        say(f"{counted(len(found.next_outputs), 'output')} to rate next, in this order:")
        columns = ("output_id", "case_id", "model", "checkpoint", "sample_index", "score")
        show_rows(columns, ([row[name] for name in columns] for row in found.next_outputs))


def show_judge_choices(found: JudgeChoices) -> None:
    """Print one row for each criterion and judge, the best first."""
    say("judges by criterion, over the rated outputs that all of them scored; pairs that they order as people do")
    headings = (
        "criterion",
        "judge",
        "outputs",
        "pairs of outputs",
        "bias",
        "$ per 1,000",
        "models",
        "tie up to",
        "run",
    )
    names = _judge_names(found.rows)
    show_rows(headings, (_choice_cells(row, names[row.run_id], found.prices[row.run_id]) for row in found.rows))
    reasons = ((f"{row.criterion_id} by {names[row.run_id]}", row.reason) for row in found.rows if row.reason)
    for words in each_once(reasons):
        say(f"note: {plain(words)}")


def _judge_names(rows: Sequence[JudgeChoice]) -> dict[str, str]:
    """Name of each run's judge, with the run where several runs have a judge of this name."""
    judges = {row.run_id: row.judge or "none" for row in rows}
    counts = Counter(judges.values())
    return {run_id: judge if counts[judge] == 1 else f"{judge}, run {run_id}" for run_id, judge in judges.items()}


def _choice_cells(row: JudgeChoice, judge: str, price: float | None) -> tuple[str, ...]:
    models = f"{row.models_alike} of {row.model_pairs}" if row.model_pairs else UNKNOWN
    value, margin = row.outputs.value, row.outputs.tie_margin
    alike, tie = (UNKNOWN if each is None else f"{each:.3f}" for each in (value, margin))
    bias = UNKNOWN if row.bias is None else f"{row.bias:+.3f}"
    cells = (row.criterion_id, judge, f"{row.n:,}", alike, bias, _price_words(price))
    return (*cells, models, tie, row.run_id)


def _price_words(price: float | None) -> str:
    return UNKNOWN if price is None else price_words(price)


def show_raters(found: RunRaters) -> None:
    """Print one row for each rater, and one for each pair of raters if they were compared."""
    _show_run(found.run)
    if found.note:
        say(f"note: {plain(found.note)}")
    headings = ("mean difference", "alpha", "agreement", "pairs")
    if found.rows:
        people.print()
        say("raters beside all others, with 95% intervals; mean difference below 0: the rater gives lower scores")
        show_rows(
            ("rater", "ratings", *headings, "outputs", "with decisions", "with gold", "severity"),
            map(_rater_cells, found.rows),
        )
        for row in found.rows:
            for reason in dict.fromkeys(each.reason for each in _figures(row.beside) if each.reason):
                say(f"note: {plain(row.rater)}: {plain(reason)}")
    if found.models and len(found.rows) > 1:
        people.print()
        say("mean ratings of models; adjusted: as if the average rater had rated all, with 95% intervals over cases")
        show_rows(("model", "ratings of", "mean", "adjusted"), map(_mean_cells, found.models))
        for words in each_once((each.model, each.mean.reason) for each in found.models if each.mean.reason):
            say(f"note: {plain(words)}")
    if found.paces:
        people.print()
        say("time on the rating page; too fast: submitted before the output can be read, which none should be")
        show_rows(("rater", "sheets", "minutes", "median s", "too fast"), map(_pace_cells, found.paces))
    if found.pairs:
        people.print()
        say("pairs of raters; mean difference: the first one's score minus the other's")
        pairs = ((pair.rater, pair.other, *_comparison_cells(pair.beside)) for pair in found.pairs)
        show_rows(("rater", "other", *headings), pairs)
    if found.settled:
        _show_settled(found.settled)


def _show_settled(settled: Sequence[SettledCriterion]) -> None:
    """Print the errors of each rater and judge, and how certain the settled levels are."""
    known = [each for each in settled if each.reason is None]
    if known:
        people.print()
        say("errors of raters and judges, as settled labels have them (Dawid-Skene); --json has each output's label")
        rows = ((each.criterion_id, voice.who or voice.side, voice) for each in known for voice in each.voices)
        cells = ((*names, f"{voice.n:,}", f"{voice.accuracy:.3f}") for *names, voice in rows)
        show_rows(("criterion", "who", "labels", "gives the true level"), cells)
    for each in known:
        sure = sum(probability >= SURE for *_, probability in each.labels)
        known_count = f"{sure:,} of {counted(len(each.labels), 'label')}"
        say(f"{plain(each.criterion_id)}: {known_count} with a probability of {SURE:g} or more")
    for words in each_once((each.criterion_id, each.reason) for each in settled if each.reason):
        say(f"note: {plain(words)}")


def _rater_cells(row: RaterRow) -> tuple[str, ...]:
    shares = (_with_interval(each) + (f" of {each.n:,}" if each.n else "") for each in (row.decisions, row.gold))
    severity = UNKNOWN if row.severity is None else f"{row.severity:+.3f}"
    compared = _comparison_cells(row.beside)
    return (row.rater, f"{row.rating_count:,}", *compared, f"{row.output_count:,}", *shares, severity)


def _mean_cells(found: ModelMean) -> tuple[str, ...]:
    mean = found.mean
    adjusted = Estimate(mean.adjusted, mean.ci_low, mean.ci_high, mean.reason)
    return (found.model, f"{mean.n:,}", f"{mean.plain:.3f}", _with_interval(adjusted))


def _pace_cells(pace: RaterPace) -> tuple[str, ...]:
    times = (f"{pace.minutes:,.1f}", f"{pace.median_sheet_s:,.0f}")
    return (pace.rater, f"{pace.sheet_count:,}", *times, f"{pace.fast_sheet_count:,}")


def _comparison_cells(found: RaterComparison) -> tuple[str, ...]:
    return (*map(_with_interval, _figures(found)), f"{found.pair_count:,}")


def _figures(found: RaterComparison) -> tuple[Measure, ...]:
    return (found.difference, found.alpha, found.agreement)


def _show_run(run: Row) -> None:
    say(f"run {run['run_id']}, {run['rubric_id']} {run['rubric_version']}, judge {run['judge'] or 'none'}")


def _why_nothing(found: RunAgreement, by: str | None) -> str:
    if by == "judge":
        return "there is only one judge"
    has_ratings = any(part.kind != JUDGES for part in found.parts)
    return "too many raters, or too few outputs of each" if has_ratings else "there are no ratings"


def _is_by(part: AgreementPart, by: str | None) -> bool:
    if by is None:
        return part.judge is None and part.rater is None
    return (part.rater if by == "rater" else part.judge) is not None


def _cells(part: AgreementPart, statistics: Sequence[str]) -> tuple[str, ...]:
    figures = (_with_interval(part.measure(statistic)) for statistic in statistics)
    who = filter(None, (part.judge or part.rater,))
    return (part.criterion_id, *who, f"{part.n:,}", *figures, f"{part.pair_count:,}")


def _show_gaps(part: AgreementPart) -> None:
    found = part.measure(WITH_GAPS)
    gap_count = (found.n or 0) - part.n
    if found.value is not None and gap_count > 0:
        say(
            f"note: {plain(part.criterion_id)}: the judge left {counted(gap_count, 'rated output')} unscored; with "
            f"these as disagreement, agreement is {_with_interval(found)}"
        )


def _show_in_full(part: AgreementPart) -> None:
    who = part.judge or part.rater
    people.print()
    say(f"{plain(part.criterion_id)}, {TITLES[part.kind]}{f', {plain(who)}' if who else ''}")
    show_rows(
        ("statistic", "outputs", "value and interval", ""),
        (
            (each.statistic, UNKNOWN if each.n is None else f"{each.n:,}", _with_interval(each), each.reason or "")
            for each in part.measures
        ),
    )
    if part.confusion:
        say("counts of outputs by level: this side in rows, the other side in columns")
        levels = [f"{level:.6g}" for level in part.levels]
        rows = zip(levels, part.confusion, strict=True)
        show_rows(("", *levels), ((level, *(f"{count:,}" for count in counts)) for level, counts in rows))


def _calibration_cells(row: Calibration) -> tuple[str, ...]:
    estimates = (row.corrected, row.rated, row.naive, row.rogan_gladen)
    more = UNKNOWN if row.more_count is None else f"{row.more_count:,} more"
    return (row.criterion_id, row.name, f"{row.n:,}", f"{row.unrated_count:,}", *map(_with_interval, estimates), more)


def _notes(found: RunCalibration) -> Iterator[tuple[str, str]]:
    """Names and remarks of the calibrated means."""
    for row in found.rows:
        if row.note:
            yield f"{row.criterion_id} of {row.name}", row.note
        reason = row.corrected.reason or (row.more_reason if row.unrated_count else None)
        if reason and reason not in (row.note or ""):
            yield f"{row.criterion_id} of {row.name}", reason


def _with_interval(found: Measure | Estimate | Strength) -> str:
    return UNKNOWN if found.value is None else with_interval(found.value, found.ci_low, found.ci_high)
