"""Tables of agreement and calibration, on stdout."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite

from gradebook.flows.display.terminal import plain, say, show, show_rows, stdout
from gradebook.rubrics.statistics.agreement import Measure
from gradebook.rubrics.statistics.cascade_rule import Share as Loss
from gradebook.rubrics.statistics.cascade_rule import Tradeoff
from gradebook.rubrics.statistics.rater_comparison import WITH_GAPS, RaterComparison
from gradebook.rubrics.text.reasons import reason_words
from gradebook.rubrics.text.tables import Cells, Record, table_from
from gradebook.rubrics.text.wording import counted, price_words, rate_words, score_words, signed_words, with_interval
from gradebook.tasks.agreement.calibration import RunCalibration
from gradebook.tasks.agreement.columns import (
    CALIBRATED_COLUMNS,
    MEAN_COLUMNS,
    PACE_COLUMNS,
    PAIR_COLUMNS,
    RATER_COLUMNS,
    TITLES,
    UNKNOWN,
    agreement_columns,
    measure_words,
)
from gradebook.tasks.agreement.compare_judges import JudgeChoice, JudgeChoices
from gradebook.tasks.agreement.mart import JUDGE_RATERS, JUDGES, RATERS
from gradebook.tasks.agreement.preferences import EQUAL, JUDGE, PEOPLE, SCORES, ModelRanking, Preference
from gradebook.tasks.agreement.published_run import AgreementPart, CriterionTrust, RunAgreement, StepAgreement
from gradebook.tasks.agreement.raters import RunRaters, SettledCriterion
from gradebook.tasks.agreement.recalibrate import CriterionFit, RunRecalibration
from gradebook.tasks.comparing.cascade_choice import CascadeChoice, rule_words
from gradebook.tasks.comparing.sentences import merge_equal_remarks
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.published.run_tables import (
    RELIABILITY,
    TRUST,
    brier_words,
    is_no_better,
    passing_sentence,
    share_words,
)

SURE = 0.95
_WHOSE = {
    PEOPLE: "people's choices on {}",
    JUDGE: "the judge's preferences on {}",
    SCORES: "overall scores, case by case",
}


def show_agreement(agreement: RunAgreement, by: str | None, *, is_full: bool) -> None:
    """Print one table for each kind of pairs, each figure with its 95% interval.

    by: `rater` or `judge` for one row each, None for all together. is_full: also print every statistic, the reasons for
    missing ones, and the confusion matrices.
    """
    _show_run(agreement.run)
    if agreement.note:
        say(f"note: {plain(agreement.note)}")
    parts = [part for part in agreement.parts if _is_by(part, by)]
    if agreement.parts and not parts:
        say(f"nothing to compare by {by}: {_why_nothing(agreement, by)}")
    for kind, title in TITLES.items():
        of_kind = [part for part in parts if part.kind == kind]
        if of_kind:
            stdout.print()
            say(f"{title}, with 95% intervals")
            _show(agreement_columns(of_kind, has_who=by is not None), of_kind)
            for part in of_kind:
                _show_gaps(part)
    _show_trust(agreement.trust, is_full=is_full)
    if agreement.preferences:
        stdout.print()
        say("people's preferences, with 95% intervals; B preferred: a tie counts as half; judge: prefers the same side")
        headings = ("criterion", "A", "B", "choices", "A", "tie", "B", "B preferred", "judge")
        show_rows(headings, map(_preference_cells, agreement.preferences))
    for ranked in agreement.rankings:
        _show_ranking(ranked)
    _show_parts(agreement, is_full=is_full)
    for part in parts if is_full else ():
        _show_in_full(part)


def _show_trust(trust: Sequence[CriterionTrust], *, is_full: bool) -> None:
    """Print what the judge finds of people's failures, and how good its probabilities are. is_full: also their curve.

    A sentence names the criteria on which a judge that passes everything would agree as well.
    """
    if not trust:
        return
    stdout.print()
    say("failures that people found, with 95% intervals over cases; always pass: agreement if nothing were failed")
    _show(TRUST, trust)
    _warn_of_passing(row.criterion_id for row in trust if is_no_better(row.trust))
    for row in trust if is_full else ():
        if row.trust.reliability:
            stdout.print()
            say(f"reliability on {plain(row.criterion_id)}: of outputs with such a probability, those that people pass")
            _show(RELIABILITY, row.trust.reliability)


def _show_claims(claims: Sequence[StepAgreement]) -> None:
    """Print a row for each criterion of claims and kind of pairs."""
    stdout.print()
    say("claims, with 95% intervals over cases; found: of the claims that a rater did not mark as supported")
    _show(_mark_columns("claims", "same verdict"), claims)


def _show_parts(agreement: RunAgreement, *, is_full: bool) -> None:
    """Print the agreement on parts of outputs: steps and claims."""
    if agreement.steps:
        _show_steps(agreement.steps, is_full=is_full)
    if agreement.claims:
        _show_claims(agreement.claims)


def _show_steps(steps: Sequence[StepAgreement], *, is_full: bool) -> None:
    """Print a row for each criterion of steps and kind of pairs. is_full: also the pairs of error types."""
    stdout.print()
    say("steps of agents, with 95% intervals over cases; found: of one's steps below the best label, by the other")
    _show(_mark_columns("steps", "same error type"), steps)
    for row in steps if is_full else ():
        stdout.print()
        say(f"errors of steps, {TITLES[row.kind]}")
        one, other = _SIDES[row.kind]
        rows = ((*(kind or "no error" for kind in kinds), f"{count:,}") for *kinds, count in row.error_pairs)
        show_rows((one, other, "marks"), rows)


_SIDES = {RATERS: ("rater", "other"), JUDGE_RATERS: ("judge", "rater"), JUDGES: ("vote", "other")}
_WHO = {RATERS: "raters", JUDGE_RATERS: "judge", JUDGES: "judges"}


def _mark_columns(units: str, same_type: str) -> Cells[StepAgreement]:
    """Columns on marks of steps or claims. units: heading of their number; same_type: of the share of equal types."""
    return {
        "criterion": lambda row: row.criterion_id,
        "who": lambda row: _WHO[row.kind],
        units: lambda row: f"{row.n:,}",
        "cases": lambda row: f"{row.case_count:,}",
        "agreement": lambda row: measure_words(row.percent_agreement),
        "kappa": lambda row: measure_words(row.kappa),
        "found": lambda row: measure_words(row.found_rate),
        same_type: lambda row: measure_words(row.same_type_rate),
    }


def _preference_cells(preference: Preference) -> tuple[str, ...]:
    names = (
        " @ ".join(filter(None, side))
        for side in ((preference.model_a, preference.checkpoint_a), (preference.model_b, preference.checkpoint_b))
    )
    counts = (preference.choice_count, preference.a_count, preference.tie_count, preference.b_count)
    shares = (measure_words(preference.b_share), measure_words(preference.judge))
    return (preference.criterion_id, *names, *(f"{count:,}" for count in counts), *shares)


def _show_ranking(ranked: ModelRanking) -> None:
    whose = _WHOSE[ranked.source].format(ranked.criterion_id)
    ties = f"; up to {ranked.tie_margin:.3f} is a tie" if ranked.tie_margin and ranked.tie_margin > EQUAL else ""
    stdout.print()
    say(f"strength of models by {whose}{ties} (Davidson: log odds against the average)")
    adjusted = ranked.at_equal_length
    rows = []
    for index, (name, strength) in enumerate(zip(ranked.models, ranked.ranking.strengths, strict=True)):
        cells = (
            measure_words(strength),
            UNKNOWN if strength.elo is None else f"{strength.elo:,.0f}",
            f"{strength.choice_count:,}",
        )
        even = None if adjusted is None else adjusted.strengths[index].value
        rows.append((name, *cells, UNKNOWN if even is None else f"{even:.3f}"))
    show_rows(("model", "strength", "Elo", "choices", "at equal length"), rows)
    if ranked.ranking.reason:
        say(f"note: {plain(reason_words(ranked.ranking.reason))}")


def show_calibration(calibration: RunCalibration) -> None:
    """Print one row for each criterion and model: four estimates of the mean; and how many ratings halve them."""
    _show_run(calibration.run)
    if calibration.note:
        say(f"note: {plain(calibration.note)}")
    if calibration.rows:
        stdout.print()
        say("means with 95% intervals; corrected: PPI++, from ratings and judge together")
        _show(CALIBRATED_COLUMNS, calibration.rows)
        if calibration.more_count:
            say(f"to halve every interval: rate {counted(calibration.more_count, 'more output')}, a random sample")
    for note in merge_equal_remarks(_notes(calibration)):
        say(f"note: {plain(note)}")
    if calibration.next_outputs:
        stdout.print()
        say(f"{counted(len(calibration.next_outputs), 'output')} to rate next, in this order:")
        columns = ("output_id", "case_id", "model", "checkpoint", "sample_index", "score")
        show_rows(columns, ([row[name] for name in columns] for row in calibration.next_outputs))


def show_judge_choices(choices: JudgeChoices) -> None:
    """Print one row for each criterion and judge, the best first."""
    say("judges by criterion, over the rated outputs that all of them scored; pairs that they order as people do")
    names = _judge_names(choices.rows)
    _show(_choice_columns(names, choices.prices), choices.rows)
    reasons = ((f"{row.criterion_id} by {names[row.run_id]}", row.reason) for row in choices.rows if row.reason)
    for note in merge_equal_remarks(reasons):
        say(f"note: {plain(note)}")
    _warn_of_passing(f"{row.criterion_id} by {names[row.run_id]}" for row in choices.rows if is_no_better(row.trust))


def _warn_of_passing(criteria: Iterable[str]) -> None:
    if sentence := passing_sentence([*criteria]):
        say(plain(sentence))


def show_cascade_choice(choice: CascadeChoice) -> None:
    """Print the rule, and what asking more or less often costs and loses on cases that did not choose it."""
    rule, chosen = choice.rule, choice.rule.chosen
    if chosen is None:
        say(f"no rule: ask {plain(choice.then)} always, or allow a larger --loss than {rate_words(rule.target)}")
    else:
        say(
            f"{rule_words(chosen)}: ask {plain(choice.then)} there, {rate_words(chosen.asked)} of the verdicts; with "
            f"{rule.confidence:.0%} confidence at most {rate_words(rule.target)} of the {choice.of} differ from always "
            "asking it"
        )
    say(f"chosen on {counted(rule.case_count, 'case')}; measured on {rule.fresh_count:,} others:")
    rows = sorted({*rule.frontier, *([chosen] if chosen else [])}, key=lambda row: (-row.asked, row.rule.value))
    cells = (_tradeoff_cells(row, is_chosen=chosen is not None and row.rule == chosen.rule) for row in rows)
    show_rows(("", "rule", "asked", "verdicts differ", "gates differ", "shift of the mean", "$ per 1,000"), cells)
    if rule.always_usd is not None:
        say(f"{plain(choice.then)} alone: {price_words(rule.always_usd)} for 1,000 outputs")
    if chosen is None and rule.case_count < rule.needed_count:
        say(f"note: so few losses can be shown from {rule.needed_count:,} cases on, half of all")
    if choice.missing_count:
        missing = counted(choice.missing_count, "verdict")
        say(f"note: without {missing} of {plain(choice.first)} that lack the second one")


def _tradeoff_cells(row: Tradeoff, *, is_chosen: bool) -> tuple[str, ...]:
    shift = _cell(row.shift.value, row.shift.low, row.shift.high, signed_words)
    gates = UNKNOWN if row.gate_loss is None else _loss_cell(row.gate_loss)
    head = ("*" if is_chosen else "", rule_words(row), rate_words(row.asked))
    return (*head, _loss_cell(row.loss), gates, shift, _price_words(row.usd))


def _loss_cell(loss: Loss) -> str:
    return _cell(loss.value, loss.low, loss.high, rate_words)


def _cell(value: float, low: float, high: float, words: Callable[[float | None], str]) -> str:
    """Figure with its interval, which a single case and differences that are all equal do not have."""
    if not isfinite(value):
        return UNKNOWN
    return with_interval(value, low, high, words) if isfinite(low + high) else words(value)


def show_recalibration(recalibrated: RunRecalibration) -> None:
    """Print the temperature of each criterion, and what it changes on cases that did not fit it."""
    headings = ("criterion", "outputs", "temperature", "log loss", "recalibrated", "gain", "Brier", "recalibrated")
    show_rows(headings, map(_fit_cells, recalibrated.rows))
    for row in recalibrated.rows:
        if row.reason:
            say(f"note: {plain(row.criterion_id)}: {plain(row.reason)}")
    if recalibrated.left_out_count:
        verdicts = counted(recalibrated.left_out_count, "rated verdict")
        say(f"note: left out: {verdicts} of outputs that a rule chose for rating; the others are a sample")
    if recalibrated.recalibration is not None:
        say(f"version {plain(recalibrated.recalibration.version)}; above 1 the judge is too sure")


def _fit_cells(row: CriterionFit) -> tuple[str, ...]:
    if row.found is None:
        return (row.criterion_id, *[UNKNOWN] * 7)
    fit = row.found
    gain = _cell(fit.gain, fit.gain_low, fit.gain_high, signed_words)
    losses = f"{fit.log_loss:.3f}", f"{fit.fitted_log_loss:.3f}", gain, f"{fit.brier:.3f}", f"{fit.fitted_brier:.3f}"
    return (row.criterion_id, f"{fit.n:,}", f"{fit.temperature:.2f}", *losses)


def _judge_names(rows: Sequence[JudgeChoice]) -> dict[str, str]:
    """Name of each run's judge, with the run where several runs have a judge of this name."""
    judges = {row.run_id: row.judge or "none" for row in rows}
    counts = Counter(judges.values())
    return {run_id: judge if counts[judge] == 1 else f"{judge}, run {run_id}" for run_id, judge in judges.items()}


def _choice_columns(names: Mapping[str, str], prices: Mapping[str, float | None]) -> Cells[JudgeChoice]:
    """Columns on judges. names, prices: of the judge of each run."""
    return {
        "criterion": lambda row: row.criterion_id,
        "judge": lambda row: names[row.run_id],
        "outputs": lambda row: f"{row.n:,}",
        "pairs of outputs": lambda row: score_words(row.outputs.value),
        "bias": lambda row: signed_words(row.bias),
        "$ per 1,000": lambda row: _price_words(prices[row.run_id]),
        "failures found": lambda row: UNKNOWN if row.trust is None else share_words(row.trust.found),
        "Brier": lambda row: UNKNOWN if row.trust is None else brier_words(row.trust),
        "log loss": lambda row: UNKNOWN if row.trust is None else score_words(row.trust.log_loss),
        "models": lambda row: f"{row.models_alike} of {row.model_pairs}" if row.model_pairs else UNKNOWN,
        "tie up to": lambda row: score_words(row.outputs.tie_margin),
        "run": lambda row: row.run_id,
    }


def _price_words(price: float | None) -> str:
    return UNKNOWN if price is None else price_words(price)


def show_raters(raters: RunRaters) -> None:
    """Print one row for each rater, and one for each pair of raters if they were compared."""
    _show_run(raters.run)
    if raters.note:
        say(f"note: {plain(raters.note)}")
    if raters.rows:
        stdout.print()
        say("raters beside all others, with 95% intervals; mean difference below 0: the rater gives lower scores")
        _show(RATER_COLUMNS, raters.rows)
        for row in raters.rows:
            for reason in dict.fromkeys(
                reason_words(figure.reason) for figure in _figures(row.beside) if figure.reason
            ):
                say(f"note: {plain(row.rater)}: {plain(reason)}")
    if raters.models and len(raters.rows) > 1:
        stdout.print()
        say("mean ratings of models; adjusted: as if the average rater had rated all, with 95% intervals over cases")
        _show(MEAN_COLUMNS, raters.models)
        for note in merge_equal_remarks(
            (row.model, reason_words(row.mean.reason)) for row in raters.models if row.mean.reason
        ):
            say(f"note: {plain(note)}")
    if raters.paces:
        stdout.print()
        say("time on the rating page; too fast: submitted before the output can be read, which none should be")
        _show(PACE_COLUMNS, raters.paces)
    if raters.pairs:
        stdout.print()
        say("pairs of raters; mean difference: the first one's score minus the other's")
        _show(PAIR_COLUMNS, raters.pairs)
    if raters.settled:
        _show_settled(raters.settled)


def _show_settled(settled: Sequence[SettledCriterion]) -> None:
    """Print the errors of each rater and judge, and how certain the settled levels are."""
    labelled = [criterion for criterion in settled if criterion.reason is None]
    if labelled:
        stdout.print()
        say("errors of raters and judges, as settled labels have them (Dawid-Skene); --json has each output's label")
        rows = (
            (criterion.criterion_id, source.who or source.side, source)
            for criterion in labelled
            for source in criterion.voices
        )
        cells = ((*names, f"{source.n:,}", f"{source.accuracy:.3f}") for *names, source in rows)
        show_rows(("criterion", "who", "labels", "gives the true level"), cells)
    for criterion in labelled:
        sure = sum(probability >= SURE for *_, probability in criterion.labels)
        known_count = f"{sure:,} of {counted(len(criterion.labels), 'label')}"
        say(f"{plain(criterion.criterion_id)}: {known_count} with a probability of {SURE:g} or more")
    for note in merge_equal_remarks(
        (criterion.criterion_id, criterion.reason) for criterion in settled if criterion.reason
    ):
        say(f"note: {plain(note)}")


def _figures(comparison: RaterComparison) -> tuple[Measure, ...]:
    return (comparison.difference, comparison.alpha, comparison.agreement)


def _show(columns: Cells[Record], rows: Iterable[Record]) -> None:
    show(table_from("", columns, {}, rows))


def _show_run(run: Row) -> None:
    say(f"run {run['run_id']}, {run['rubric_id']} {run['rubric_version']}, judge {run['judge'] or 'none'}")


def _why_nothing(agreement: RunAgreement, by: str | None) -> str:
    if by == "judge":
        return "there is only one judge"
    has_ratings = any(part.kind != JUDGES for part in agreement.parts)
    return "too many raters, or too few outputs of each" if has_ratings else "there are no ratings"


def _is_by(part: AgreementPart, by: str | None) -> bool:
    if by is None:
        return part.judge is None and part.rater is None
    return (part.rater if by == "rater" else part.judge) is not None


def _show_gaps(part: AgreementPart) -> None:
    measure = part.measure(WITH_GAPS)
    gap_count = (measure.n or 0) - part.n
    if measure.value is not None and gap_count > 0:
        say(
            f"note: {plain(part.criterion_id)}: the judge left {counted(gap_count, 'rated output')} unscored; with "
            f"these as disagreement, agreement is {measure_words(measure)}"
        )


def _show_in_full(part: AgreementPart) -> None:
    who = part.judge or part.rater
    stdout.print()
    say(f"{plain(part.criterion_id)}, {TITLES[part.kind]}{f', {plain(who)}' if who else ''}")
    show_rows(
        ("statistic", "outputs", "value and interval", ""),
        (
            (
                measure.statistic,
                UNKNOWN if measure.n is None else f"{measure.n:,}",
                measure_words(measure),
                reason_words(measure.reason),
            )
            for measure in part.measures
        ),
    )
    if part.confusion:
        say("counts of outputs by level: this side in rows, the other side in columns")
        levels = [f"{level:.6g}" for level in part.levels]
        rows = zip(levels, part.confusion, strict=True)
        show_rows(("", *levels), ((level, *(f"{count:,}" for count in counts)) for level, counts in rows))


def _notes(calibration: RunCalibration) -> Iterator[tuple[str, str]]:
    """Names and remarks of the calibrated means."""
    for row in calibration.rows:
        if row.note:
            yield f"{row.criterion_id} of {row.name}", row.note
        reason = reason_words(row.corrected.reason or (row.more_reason if row.unrated_count else None))
        if reason and reason not in (row.note or ""):
            yield f"{row.criterion_id} of {row.name}", reason
