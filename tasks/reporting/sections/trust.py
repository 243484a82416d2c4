"""Section "Trust": findings on completeness, provenance, replies and anchors, each with a sign and a sentence."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gradebook.rubrics.model.methods import METHODS
from gradebook.rubrics.text.tables import Table, table_of
from gradebook.rubrics.text.wording import counted, difference_interval_words, rate_words, signed_words
from gradebook.tasks.agreement.audited_scores import audited_sentence
from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.agreement.standing import JudgeStanding, Trust, off_means
from gradebook.tasks.comparing.sides import are_recorded
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.summary import other_model
from gradebook.tasks.published.verdict import standing_words
from gradebook.tasks.reporting.report_source import ReportSource
from gradebook.tasks.reporting.sections.agreement import CurrentAgreement, corrected_sentence, gap_words, read_agreement


class Sign(StrEnum):
    """Severity of a finding, worst first; its value is the word on the page."""

    BAD = "bad"
    LOOK = "look"
    FINE = "fine"


SYMBOLS = {Sign.BAD: "✗", Sign.LOOK: "!", Sign.FINE: "✓"}  # shown with the word, so colour is never the only sign


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding on trust. words: sentences with their numbers; table: shown after a click."""

    sign: Sign
    topic: str
    words: str
    table: Table | None = None

    @property
    def symbol(self) -> str:
        return SYMBOLS[self.sign]


def anchor_findings(source: ReportSource) -> Iterator[Finding]:
    """Finding on the last night before the run on which the judge was watched; none without anchors."""
    run = source.summary.run
    rows = source.rows(query("published/judge_states"), judge=run["judge"], until=run["finished_at"])
    if not rows:
        return
    first, drifted = rows[0], [row["criterion_id"] for row in rows if row["state"] == "drifted"]
    where = f"on the anchors {first['anchor_set']}, night {first['night']}"
    if drifted:
        sentence = f"{first['judge']} scores the same outputs differently than before on {', '.join(drifted)}, {where}."
    elif first["state"] in ("reference", "new_model"):
        sentence = f"A new epoch of {first['judge']} began {where}: it is compared with nothing before."
    else:
        sentence = f"No sign that {first['judge']} changed, {where}: its evidence is {first['e_value']:.3g}, and "
        sentence += f"{first['alarm_at']:.0f} would be an alarm."
    sign = Sign.BAD if drifted else Sign.FINE if first["state"] == "steady" else Sign.LOOK
    cells = [
        (
            row["criterion_id"],
            row["state"],
            f"{row['epoch']}",
            signed_words(row["mean_gap"]),
            difference_interval_words(row["gap_low"], row["gap_high"]),
            signed_words(row["people_gap"]),
            f"{row['e_value']:.3g}",
        )
        for row in rows
    ]
    headings = ("Criterion", "State"), ("Epoch", "From frozen scores", "95% interval", "From people", "Evidence")
    yield Finding(sign, "Judge over time", sentence, table_of("Anchors, last night", *headings, cells))


MOST_ROWS = 10  # refused rows in the table
MOST_REASONS = 5  # named in a sentence
MOST_GAPS = 100  # rows in the table of missing scores

_REFUSED_REASONS = """
select reason, count(*) as row_count from quarantine where run_id = ? group by reason order by row_count desc, reason
"""
_REFUSED = "select source, line, reason from quarantine where run_id = ? order by source, line limit ?"
_UNMET = """
select stage, subject, expectation, severity, unexpected_count, observed from quality_results
where run_id = ? and not is_met order by severity, stage, subject, expectation
"""


def completeness_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on input rows, data-quality expectations and missing scores."""
    reasons = source.rows(_REFUSED_REASONS, source.run_id)
    yield _rows_in(source, sum(row["row_count"] for row in reasons))
    if reasons:
        yield _refused(source, reasons)
    yield _quality(source)
    yield _coverage(source)


def _rows_in(source: ReportSource, refused_count: int) -> Finding:
    """Finding that accounts for each input row; bad if the parts do not add up."""
    output_count = sum(row["output_count"] for row in source.summary.scores)
    scored_count = sum(row["n"] for row in source.summary.scores)
    outcome_words = f"{counted(scored_count, 'output')} with a score, {output_count - scored_count:,} without one"
    if source.criteria and all(row["is_gate"] for row in source.criteria) and not scored_count:
        outcome_words += " (the rubric has only gates)"
    if penalised_count := sum(row["output_count"] for row in source.summary.penalised):
        outcome_words += f" ({penalised_count:,} with penalties only)"
    of_ingest = (row for row in source.summary.costs if row["stage"] == "ingest" and row["criterion_id"] is None)
    row_count = next((row["row_count"] for row in of_ingest), None)
    if not row_count:
        return Finding(Sign.FINE, "Rows", f"{outcome_words}; the number of rows read was not recorded.")
    repeated_count = row_count - output_count - refused_count
    sentence = f"{counted(row_count, 'row')} read: {outcome_words}, {refused_count:,} refused"
    if repeated_count < 0:
        return Finding(Sign.BAD, "Rows", f"{sentence}; these are {-repeated_count:,} more than were read.")
    adds_up = f"{scored_count:,} + {output_count - scored_count:,} + {refused_count:,} + {repeated_count:,}"
    rest = "repeated and stored once" if source.summary.run["stopped_at"] is None else "not needed, or repeated"
    return Finding(Sign.FINE, "Rows", f"{sentence}, {repeated_count:,} {rest} ({adds_up} = {row_count:,}).")


def _refused(source: ReportSource, reasons: Sequence[Row]) -> Finding:
    refused_count = sum(row["row_count"] for row in reasons)
    frequent = _most_frequent(Counter({row["reason"]: row["row_count"] for row in reasons}))
    refused_rows = source.rows(_REFUSED, source.run_id, MOST_ROWS)
    caption = f"Rows refused{f', the first {MOST_ROWS} of {refused_count:,}' if refused_count > MOST_ROWS else ''}"
    lines = ((row["source"], row["reason"], "–" if row["line"] is None else f"{row['line']:,}") for row in refused_rows)
    sentence = f"{counted(refused_count, 'row')} refused: {frequent}. Scores do not include them."
    return Finding(Sign.LOOK, "Quarantine", sentence, table_of(caption, ("File", "Reason"), ("Line",), lines))


def _most_frequent(counts: Mapping[str, int]) -> str:
    """Most frequent reasons with their counts, and the count of all others."""
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    words = [f"{name} ({count:,})" for name, count in ranked[:MOST_REASONS]]
    rest = sum(count for _, count in ranked[MOST_REASONS:])
    return ", ".join([*words, *([f"other reasons ({rest:,})"] if rest else [])])


def _quality(source: ReportSource) -> Finding:
    stages = source.summary.quality
    expected_count = sum(row["expectation_count"] for row in stages)
    if not expected_count:
        return Finding(Sign.LOOK, "Data quality", "No data-quality expectation was checked in this run.")
    unmet = source.rows(_UNMET, source.run_id)
    checked = f"{counted(expected_count, 'expectation')} checked at {counted(len(stages), 'stage')}"
    if not unmet:
        counts = ((row["stage"], f"{row['expectation_count']:,}", f"{row['unmet_count']:,}") for row in stages)
        table = table_of("Expectations by stage", ("Stage",), ("Expectations", "Not met"), counts)
        return Finding(Sign.FINE, "Data quality", f"{checked}; all are met.", table)
    is_bad = any(row["severity"] == "error" for row in unmet)
    unmet_words = ", ".join(f"{row['subject']}: {row['expectation'].rstrip('.')}" for row in unmet[:MOST_REASONS])
    more = f" and {len(unmet) - MOST_REASONS:,} more" if len(unmet) > MOST_REASONS else ""
    sentence = f"{checked}; {len(unmet):,} not met: {unmet_words}{more}."
    return Finding(Sign.BAD if is_bad else Sign.LOOK, "Data quality", sentence, _unmet_table(unmet))


def _unmet_table(unmet: Sequence[Row]) -> Table:
    lines = (
        (
            *(row["stage"], row["subject"], row["expectation"], row["severity"], row["observed"] or ""),
            "–" if row["unexpected_count"] is None else f"{row['unexpected_count']:,}",
        )
        for row in unmet
    )
    headings = ("Stage", "Subject", "Expectation", "Severity", "Found")
    return table_of("Expectations that are not met", headings, ("Rows",), lines)


def _coverage(source: ReportSource) -> Finding:
    """Finding on the share of verdicts with a score, with the reasons of the others; of optional criteria a note."""
    verdict_count, scored_count = source.verdict_counts["verdict_count"], source.verdict_counts["scored_count"]
    if not verdict_count:
        return Finding(Sign.BAD, "Verdicts", "The run has no verdicts.")
    if scored_count == verdict_count:
        every = "The only verdict has" if verdict_count == 1 else f"All {verdict_count:,} verdicts have"
        return Finding(Sign.FINE, "Verdicts", f"{every} a score.")
    gaps = source.rows(query("reporting/gaps"), run_id=source.run_id)
    reasons: Counter[str] = Counter()
    by_place: dict[tuple[str, str, str | None], Counter[str]] = {}
    for gap in gaps:
        reasons[gap["reason"]] += gap["unscored_count"]
        key = (gap["criterion_id"], gap["model"], gap["checkpoint"])
        by_place.setdefault(key, Counter())[gap["reason"]] += gap["unscored_count"]
    short = [row for row in source.summary.criteria if row["n"] < row["output_count"]]
    short.sort(key=lambda row: (row["coverage_rate"], row["criterion_id"], model_name(row)))
    rate = rate_words(scored_count / verdict_count)
    sentence = (
        f"{scored_count:,} of {counted(verdict_count, 'verdict')} {'has' if scored_count == 1 else 'have'} a score "
        f"({rate}). The others: {_most_frequent(reasons)}."
    )
    required = [row for row in short if row["is_required"]]
    if not required:
        return Finding(Sign.FINE, "Verdicts", f"{sentence} All are of optional criteria.", _gap_table(short, by_place))
    empty = list(dict.fromkeys(row["criterion_id"] for row in required if not row["n"]))
    if empty:
        empty_words = ", ".join(empty[:MOST_REASONS]) + (" and more" if len(empty) > MOST_REASONS else "")
        sentence += f" A model has no score on {empty_words}."
    return Finding(Sign.BAD if empty else Sign.LOOK, "Verdicts", sentence, _gap_table(short, by_place))


def _gap_table(short: Sequence[Row], by_place: Mapping[tuple[str, str, str | None], Counter[str]]) -> Table:
    more = f", the {MOST_GAPS} lowest of {len(short):,}" if len(short) > MOST_GAPS else ""
    lines = (
        (
            row["criterion_id"],
            model_name(row),
            _most_frequent(by_place.get((row["criterion_id"], row["model"], row["checkpoint"]), Counter())),
            f"{row['n']:,}",
            f"{row['output_count']:,}",
            rate_words(row["coverage_rate"]),
        )
        for row in short[:MOST_GAPS]
    )
    return table_of(
        f"Criteria and models with missing scores{more}",
        ("Criterion", "Model", "Why"),
        ("Scored", "Outputs", "Coverage"),
        lines,
    )


DIGITS = 12  # shown of a digest
MOST_EARLIER = 20  # runs in the table

_OWN_IDENTITY = "select settings::json -> 'judge' as identity from runs where run_id = ?"


def provenance_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on the run's notes, its versions, and its differences from earlier runs."""
    run = source.summary.run
    notes = run["notes"] or []
    if notes:
        sentence = f"{counted(len(notes), 'note')} on the run: {'; '.join(notes)}."
        yield Finding(Sign.LOOK, "Notes", sentence)
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
    sentence = (
        f"{versions[0][1]}; {run['rubric_id']} {run['rubric_version']}, digest {_short(run['rubric_digest'])}; judge "
        f"{versions[2][1]}; dataset digest {_short(run['dataset_digest'])}."
    )
    return Finding(Sign.FINE, "Versions", sentence, table_of("Versions", ("Part", "Version"), (), versions))


def _short(digest: str | None) -> str:
    return "not recorded" if digest is None else digest[:DIGITS]


def _earlier(source: ReportSource, run: Row) -> Finding:
    """Finding on differences from earlier runs in judge, outputs and code, which make means incomparable."""
    names = ("rubric_id", "rubric_version", "version")
    earlier = source.rows(query("reporting/earlier_runs"), **{name: run[name] for name in names})
    if not earlier:
        return Finding(Sign.FINE, "Earlier runs", "No earlier run used this rubric version.")
    (identity,) = source.rows(_OWN_IDENTITY, source.run_id)
    differences_of = [_differences(run | identity, before) for before in earlier]
    last, last_differences = earlier[0], differences_of[0]
    sentence = f"{counted(len(earlier), 'earlier run')} of this rubric version. The last one, {last['run_id']}, had "
    sentence += f"{_listed(last_differences)}." if last_differences else "the same judge, outputs and code."
    other_judges = sum("another judge" in listed or "other judge settings" in listed for listed in differences_of)
    if other_judges:
        sentence += (
            f" {other_judges:,} of them had another judge or other judge settings: their means are not comparable with "
            "those of this run."
        )
    lines = (
        (row["run_id"], row["judge"] or "none", row["dataset"] or "–", _listed(differences) or "nothing")
        for row, differences in zip(earlier[:MOST_EARLIER], differences_of, strict=False)
    )
    more = f", the last {MOST_EARLIER} of {len(earlier):,}" if len(earlier) > MOST_EARLIER else ""
    table = table_of(f"Earlier runs of this rubric version{more}", ("Run", "Judge", "Dataset", "Differs in"), (), lines)
    is_other = bool(last_differences) and last_differences != ["other outputs"]
    return Finding(Sign.LOOK if is_other or other_judges else Sign.FINE, "Earlier runs", sentence, table)


def _differences(run: Row, before: Row) -> list[str]:
    differences = []
    if are_recorded(before["judge"], run["judge"]):
        pass
    elif before["judge"] != run["judge"]:
        differences.append("another judge")
    elif before["identity"] != run["identity"]:
        differences.append("other judge settings")
    if before["dataset_digest"] != run["dataset_digest"]:
        differences.append("other outputs")
    if before["code_version"] != run["code_version"]:
        differences.append("another version of gradebook")
    return differences


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


MOST_USELESS_RATE = 0.05  # as in the quality suite of judgments
STATUS_WORDS = {
    "parse_error": "unreadable",
    "refused": "refused",
    "truncated": "cut off",
    "filtered": "filtered by the endpoint",
    "evidence_unverified": "with a quote that is not in the output",
    "abstained": "without a level",
    "no_logprobs": "without probabilities",
    "no_answer": "without an answer to the question",
}


def reply_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on replies; none if no judge was asked."""
    replies = source.rows(query("reporting/reply_kinds"), run_id=source.run_id)
    if replies:
        yield _usefulness(replies)
        reported = [row for row in replies if row["model_returned"] is not None]
        if reported:
            yield _models(reported)
    if source.verdict_counts["replayed_count"]:
        yield _replayed(source.verdict_counts)


def _usefulness(replies: Sequence[Row]) -> Finding:
    statuses: Counter[str] = Counter()
    for row in replies:
        statuses[row["status"]] += row["reply_count"]
    reply_count = statuses.total()
    useless_count = reply_count - statuses["scored"]
    judges = counted(len({row["judge"] for row in replies}), "judge")
    sentence = f"The verdicts are based on {counted(reply_count, 'reply', 'replies')} of {judges}"
    if not useless_count:
        return Finding(Sign.FINE, "Replies", f"{sentence}; each gave a level.", _statuses_table(replies))
    useless = [(status, count) for status, count in statuses.most_common() if status != "scored"]
    useless_words = ", ".join(f"{count:,} {STATUS_WORDS.get(status, status)} ({status})" for status, count in useless)
    rate = useless_count / reply_count
    sign = Sign.BAD if rate > MOST_USELESS_RATE else Sign.LOOK
    sentence = f"{sentence}; {useless_count:,} of them ({rate_words(rate)}) gave no level: {useless_words}."
    return Finding(sign, "Replies", sentence, _statuses_table(replies))


def _statuses_table(replies: Sequence[Row]) -> Table:
    lines = (
        (row["judge"], row["status"], row["model_returned"] or "not reported", f"{row['reply_count']:,}")
        for row in sorted(replies, key=lambda row: (row["judge"], -row["reply_count"], row["status"]))
    )
    return table_of("Replies by judge", ("Judge", "Status", "Model that answered"), ("Replies",), lines)


def _models(reported: Sequence[Row]) -> Finding:
    """Finding on the models that answered, as reported by the endpoint: another model is another judge."""
    answered: dict[str, Counter[str]] = {}
    for row in reported:
        answered.setdefault(row["judge"], Counter())[row["model_returned"]] += row["reply_count"]
    several = {judge: models for judge, models in answered.items() if len(models) > 1}
    other = {judge: models for judge, models in answered.items() if set(models) != {judge}}
    if not other:
        return Finding(
            Sign.FINE, "Models asked", f"The models that answered are the models asked: {', '.join(sorted(answered))}."
        )
    named_words = "; ".join(
        f"asked for {judge}, answered as {', '.join(f'{model} ({count:,})' for model, count in models.most_common())}"
        for judge, models in sorted(other.items())
    )
    # A name with a date appended is the same model; another name, or several names, may be another model.
    is_dated = not several and all(model.startswith(judge) for judge, models in other.items() for model in models)
    return Finding(Sign.FINE if is_dated else Sign.LOOK, "Models asked", f"As reported by the endpoint: {named_words}.")


def _replayed(counts: Row) -> Finding:
    rate = counts["replayed_count"] / counts["judged_count"] if counts["judged_count"] else None
    sentence = (
        f"{counts['replayed_count']:,} of {counted(counts['judged_count'], 'judged verdict')} ({rate_words(rate)}) "
        "use earlier replies, from the ledger or recorded; new requests might give other levels."
    )
    return Finding(Sign.FINE, "Replayed", sentence)


# Rules of thumb for the sign of a finding; its sentence has the numbers.
STEADY_FLIP_RATE, LOOSE_FLIP_RATE = 0.05, 0.2


NOT_ASKED = "The run had no judge: its scores come from checks, functions and people."
_ANSWERS = {
    Trust.GOOD: "yes on {}",
    Trust.BIASED: "on {} only the means that ratings correct, as it is biased",
    Trust.WEAK: "no on {}, where it rarely agrees with people",
    Trust.CHANCE: "no on {}, where it is no better than chance, as far as the ratings show",
    Trust.UNKNOWN: "too few ratings to tell on {}",
}


def trust_states(source: ReportSource, agreement: CurrentAgreement) -> dict[str, str]:
    """State of trust by criterion that a judge scores; `unrated` without ratings."""
    judged = [row["criterion_id"] for row in source.criteria if METHODS[row["method"]].is_asked]
    states = {standing.criterion_id: standing.trust.value for standing in agreement.standings}
    return dict.fromkeys(judged, "unrated") | states


def trust_words(criteria: dict[str, str]) -> str:
    """Whether the judge may be trusted, as a sentence. criteria: as `trust_states`."""
    by_state: dict[str, list[str]] = {}
    for name, state in criteria.items():
        by_state.setdefault(state, []).append(name)
    clauses = [clause.format(", ".join(by_state[state])) for state, clause in _ANSWERS.items() if state in by_state]
    if unrated := by_state.get("unrated"):
        clauses.append(f"unknown on {', '.join(unrated)}, as nobody rated what it scored")
    if not clauses:
        return "Unknown: no criterion of the rubric is the judge's."
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."


@dataclass(frozen=True, slots=True)
class TrustContents:
    """Findings, worst first. answer: whether the judge may be trusted, as `gradebook judge trust` says it.

    counted: sentence with the number of findings of each sign.
    """

    answer: str
    counted: str
    findings: tuple[Finding, ...]


def read_trust(source: ReportSource) -> TrustContents:
    """Collect all findings on the trustworthiness of the run's numbers."""
    agreement = None if source.summary.run["judge"] is None else read_agreement(source)
    findings = (
        *completeness_findings(source),
        *reply_findings(source),
        *_judge_findings(source, agreement),
        *provenance_findings(source),
    )
    order = list(Sign)
    counts = {sign: sum(finding.sign == sign for finding in findings) for sign in order}
    sentence = f"{counts[Sign.BAD]:,} bad, {counts[Sign.LOOK]:,} to look at, {counts[Sign.FINE]:,} fine."
    answer = NOT_ASKED if agreement is None else trust_words(trust_states(source, agreement))
    return TrustContents(answer, sentence, tuple(sorted(findings, key=lambda finding: order.index(finding.sign))))


def _judge_findings(source: ReportSource, agreement: CurrentAgreement | None) -> Iterator[Finding]:
    """Findings on the judge's consistency and on its agreement with people; none if the run had no judge."""
    if agreement is None:
        return
    yield from anchor_findings(source)
    yield from consistency_findings(source)
    yield agreement_finding(agreement)
    yield from calibration_findings(source)
    yield from audit_findings(source)


def consistency_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on replies to the same question: asked again, with levels or answers in another order."""
    yield _flips(source)
    yield from _swaps(source)
    yield from _position_flips(source)


def _flips(source: ReportSource) -> Finding:
    rows = [row for row in source.summary.noise if row["flip_rate"] is not None]
    if not rows:
        sentence = (
            "The judge was asked each question once, so its flip rate is unknown (set replicates: 2 in the judge's "
            "file to measure it)."
        )
        return Finding(Sign.LOOK, "Consistency", sentence)
    worst = max(rows, key=lambda row: row["flip_rate"])
    sentence = (
        f"Two replies to the same question differ in at most {rate_words(worst['flip_rate'])} of the pairs: on "
        f"{worst['criterion_id']} of {model_name(worst)}."
    )
    return Finding(_sign_of(worst["flip_rate"]), "Consistency", sentence)


def _swaps(source: ReportSource) -> Iterator[Finding]:
    rows = [row for row in source.summary.noise if row["swap_flip_rate"] is not None]
    if rows:
        worst = max(rows, key=lambda row: row["swap_flip_rate"])
        sentence = (
            f"With the levels in reverse order, the level differs in at most {rate_words(worst['swap_flip_rate'])} of "
            f"the replies: on {worst['criterion_id']} of {model_name(worst)}."
        )
        yield Finding(_sign_of(worst["swap_flip_rate"]), "Order of levels", sentence)


def _position_flips(source: ReportSource) -> Iterator[Finding]:
    rows = [row for row in source.summary.preferences if row["position_flip_rate"] is not None]
    if rows:
        worst = max(rows, key=lambda row: row["position_flip_rate"])
        sentence = (
            f"Shown in the other order, another answer is preferred in at most "
            f"{rate_words(worst['position_flip_rate'])} of the pairs, which are ties: on {worst['criterion_id']} of "
            f"{model_name(worst)} against {other_model(worst)}."
        )
        yield Finding(_sign_of(worst["position_flip_rate"]), "Order of answers", sentence)


def _sign_of(flip_rate: float) -> Sign:
    if flip_rate > LOOSE_FLIP_RATE:
        return Sign.BAD
    return Sign.LOOK if flip_rate > STEADY_FLIP_RATE else Sign.FINE


def agreement_finding(agreement: CurrentAgreement) -> Finding:
    """Finding on the judge's agreement with people."""
    parts = agreement.together(JUDGE_RATERS)
    if not parts:
        sentence = (
            "The judge has not been compared with people. gradebook people ratings import imports people's ratings of "
            "these outputs, and this page then shows the agreement."
        )
        return Finding(Sign.LOOK, "People", sentence)
    sentence = _same_level(agreement)
    doubt = [standing for standing in agreement.standings if standing.trust is Trust.CHANCE]
    sentence += f" The judge {standing_words(Trust.CHANCE, doubt)}." if doubt else ""
    biased = [standing for standing in agreement.standings if standing.is_biased]
    sentence += f" Beyond chance the judge is {_leaning(biased)}." if biased else ""
    # The standings are sorted: the first one is trusted least.
    return Finding(_SIGNS[agreement.standings[0].trust], "People", sentence)


_SIGNS = {Trust.CHANCE: Sign.BAD, Trust.WEAK: Sign.BAD, Trust.GOOD: Sign.FINE}
_SIGNS |= dict.fromkeys((Trust.BIASED, Trust.UNKNOWN), Sign.LOOK)


def _same_level(agreement: CurrentAgreement) -> str:
    """Sentence on the criterion with the least agreement of judge and people; unknown without levels."""
    rates, part_count = agreement.rates(JUDGE_RATERS), len(agreement.together(JUDGE_RATERS))
    if not rates:
        scores = f"their scores on {counted(part_count, 'criterion', 'criteria')} are not levels"
        return f"Agreement of judge and people is unknown: {scores}."
    worst, rate = rates[0]
    people = agreement.rate(RATERS, worst.criterion_id)
    sentence = (
        f"Judge and people gave the same level in {rate_words(rate)} of {counted(worst.pair_count, 'pair')} "
        f"on {worst.criterion_id}"
    )
    sentence += f", the least of {len(rates):,} criteria" if len(rates) > 1 else ""
    sentence += f"; people with each other in {rate_words(people)}." if people is not None else "."
    sentence += gap_words(worst)
    if part_count > len(rates):
        sentence += f" On {part_count - len(rates):,} more their scores are not levels."
    return sentence


def _leaning(biased: Sequence[JudgeStanding]) -> str:
    ways = {"more lenient": [standing for standing in biased if standing.leaning == "lenient"]}
    ways["stricter"] = [standing for standing in biased if standing.leaning == "strict"]
    return " and ".join(
        f"{way} than people on {', '.join(map(_bias, standings))}" for way, standings in ways.items() if standings
    )


def _bias(standing: JudgeStanding) -> str:
    return f"{standing.criterion_id} ({signed_words(standing.bias.value)})"


def audit_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on overall means that a cascade's audit corrects; none of other judges."""
    for row in source.summary.audited:
        if row["criterion_id"] is None:
            is_within = row["ci_low"] is not None and row["ci_low"] <= row["mean"] <= row["ci_high"]
            yield Finding(Sign.FINE if is_within else Sign.LOOK, "Audit", audited_sentence(row))


def calibration_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on means corrected by ratings; none without ratings of the judge's outputs."""
    means, fault = source.summary.means, source.summary.calibration_fault
    if fault:
        yield Finding(Sign.LOOK, "Calibration", f"No mean could be corrected by people's ratings: {fault}")
    if means:
        is_doubtful = bool(off_means(means)) or not all(row.is_random for row in means)
        sign = Sign.LOOK if is_doubtful else Sign.FINE
        yield Finding(sign, "Calibration", corrected_sentence(source, means))
