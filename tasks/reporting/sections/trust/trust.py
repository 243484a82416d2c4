"""Section "Trust": findings about rows refused, scores missing, replies misread and judges in doubt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.counts import counted
from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.agreement.standing import JudgeStanding, Trust, off_means
from gradebook.tasks.lake.rows import model_name
from gradebook.tasks.published.summary import other_model
from gradebook.tasks.published.verdict import standing_words
from gradebook.tasks.reporting.sections.people.agreement import CurrentAgreement, gap_words, read_agreement
from gradebook.tasks.reporting.sections.people.corrected_means import corrected_reading
from gradebook.tasks.reporting.sections.trust.anchor_findings import anchor_findings
from gradebook.tasks.reporting.sections.trust.completeness import completeness_findings
from gradebook.tasks.reporting.sections.trust.provenance import provenance_findings
from gradebook.tasks.reporting.sections.trust.reply_findings import reply_findings
from gradebook.tasks.reporting.source.findings import Finding, Sign
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import rate_words, signed_words

# Rules of thumb for the sign of a finding; its sentence has the numbers.
STEADY_FLIP_RATE, LOOSE_FLIP_RATE = 0.05, 0.2


@dataclass(frozen=True, slots=True)
class TrustContents:
    """Findings, worst first. counted: sentence with the number of findings of each sign."""

    counted: str
    findings: tuple[Finding, ...]


def read_trust(source: ReportSource) -> TrustContents:
    """Collect all findings on the trustworthiness of the run's numbers."""
    found = (
        *completeness_findings(source),
        *reply_findings(source),
        *_judge_findings(source),
        *provenance_findings(source),
    )
    order = list(Sign)
    counts = {sign: sum(finding.sign == sign for finding in found) for sign in order}
    words = f"{counts[Sign.BAD]:,} bad, {counts[Sign.LOOK]:,} to look at, {counts[Sign.FINE]:,} fine."
    return TrustContents(words, tuple(sorted(found, key=lambda finding: order.index(finding.sign))))


def _judge_findings(source: ReportSource) -> Iterator[Finding]:
    """Findings on the judge's consistency and on its agreement with people; none if the run had no judge."""
    if source.summary.run["judge"] is None:
        return
    yield from anchor_findings(source)
    yield _flips(source)
    yield from _swaps(source)
    yield from _position_flips(source)
    yield _agreement(read_agreement(source))
    yield from _calibration(source)


def _flips(source: ReportSource) -> Finding:
    rows = [row for row in source.summary.noise if row["flip_rate"] is not None]
    if not rows:
        words = (
            "The judge was asked each question once, so its flip rate is unknown (set replicates: 2 in the judge's "
            "file to measure it)."
        )
        return Finding(Sign.LOOK, "Consistency", words)
    worst = max(rows, key=lambda row: row["flip_rate"])
    words = (
        f"Two replies to the same question differ in at most {rate_words(worst['flip_rate'])} of the pairs: on "
        f"{worst['criterion_id']} of {model_name(worst)}."
    )
    return Finding(_sign_of(worst["flip_rate"]), "Consistency", words)


def _swaps(source: ReportSource) -> Iterator[Finding]:
    rows = [row for row in source.summary.noise if row["swap_flip_rate"] is not None]
    if rows:
        worst = max(rows, key=lambda row: row["swap_flip_rate"])
        words = (
            f"With the levels in reverse order, the level differs in at most {rate_words(worst['swap_flip_rate'])} of "
            f"the replies: on {worst['criterion_id']} of {model_name(worst)}."
        )
        yield Finding(_sign_of(worst["swap_flip_rate"]), "Order of levels", words)


def _position_flips(source: ReportSource) -> Iterator[Finding]:
    rows = [row for row in source.summary.preferences if row["position_flip_rate"] is not None]
    if rows:
        worst = max(rows, key=lambda row: row["position_flip_rate"])
        words = (
            f"Shown in the other order, another answer is preferred in at most "
            f"{rate_words(worst['position_flip_rate'])} of the pairs, which are ties: on {worst['criterion_id']} of "
            f"{model_name(worst)} against {other_model(worst)}."
        )
        yield Finding(_sign_of(worst["position_flip_rate"]), "Order of answers", words)


def _sign_of(flip_rate: float) -> Sign:
    if flip_rate > LOOSE_FLIP_RATE:
        return Sign.BAD
    return Sign.LOOK if flip_rate > STEADY_FLIP_RATE else Sign.FINE


def _agreement(agreement: CurrentAgreement) -> Finding:
    parts = agreement.together(JUDGE_RATERS)
    if not parts:
        words = (
            "The judge has not been compared with people. gradebook ratings import imports people's ratings of these "
            "outputs, and this page then shows the agreement."
        )
        return Finding(Sign.LOOK, "People", words)
    words = _same_level(agreement)
    doubt = [each for each in agreement.standings if each.trust is Trust.CHANCE]
    words += f" The judge {standing_words(Trust.CHANCE, doubt)}." if doubt else ""
    biased = [each for each in agreement.standings if each.is_biased]
    words += f" Beyond chance the judge is {_leaning(biased)}." if biased else ""
    # The standings are sorted: the first one is trusted least.
    return Finding(_SIGNS[agreement.standings[0].trust], "People", words)


_SIGNS = {Trust.CHANCE: Sign.BAD, Trust.WEAK: Sign.BAD, Trust.GOOD: Sign.FINE}
_SIGNS |= dict.fromkeys((Trust.BIASED, Trust.UNKNOWN), Sign.LOOK)


def _same_level(agreement: CurrentAgreement) -> str:
    """Sentence on the criterion with the least agreement of judge and people; unknown without levels."""
    known, part_count = agreement.rates(JUDGE_RATERS), len(agreement.together(JUDGE_RATERS))
    if not known:
        scores = f"their scores on {counted(part_count, 'criterion', 'criteria')} are not levels"
        return f"Agreement of judge and people is unknown: {scores}."
    worst, rate = known[0]
    people = agreement.rate(RATERS, worst.criterion_id)
    words = (
        f"Judge and people gave the same level in {rate_words(rate)} of {counted(worst.pair_count, 'pair')} "
        f"on {worst.criterion_id}"
    )
    words += f", the least of {len(known):,} criteria" if len(known) > 1 else ""
    words += f"; people with each other in {rate_words(people)}." if people is not None else "."
    words += gap_words(worst)
    if part_count > len(known):
        words += f" On {part_count - len(known):,} more their scores are not levels."
    return words


def _leaning(biased: Sequence[JudgeStanding]) -> str:
    ways = {"more lenient": [each for each in biased if each.leaning == "lenient"]}
    ways["stricter"] = [each for each in biased if each.leaning == "strict"]
    return " and ".join(f"{way} than people on {', '.join(map(_bias, found))}" for way, found in ways.items() if found)


def _bias(standing: JudgeStanding) -> str:
    return f"{standing.criterion_id} ({signed_words(standing.bias.value)})"


def _calibration(source: ReportSource) -> Iterator[Finding]:
    means, fault = source.summary.means, source.summary.calibration_fault
    if fault:
        yield Finding(Sign.LOOK, "Calibration", f"No mean could be corrected by people's ratings: {fault}")
    if means:
        is_doubtful = bool(off_means(means)) or not all(row.is_random for row in means)
        sign = Sign.LOOK if is_doubtful else Sign.FINE
        yield Finding(sign, "Calibration", corrected_reading(source, means))
