"""Whether the numbers can be trusted: what was refused, left out, misread or in doubt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradebook.tasks.agreement.mart import JUDGE_RATERS, RATERS
from gradebook.tasks.agreement.published_run import AgreementPart
from gradebook.tasks.lake.rows import model_name
from gradebook.tasks.reporting.sections.people.agreement import HeldAgreement, is_biased, is_too_kind, read_agreement
from gradebook.tasks.reporting.sections.people.corrected_means import corrected_reading, is_off
from gradebook.tasks.reporting.sections.trust.completeness import completeness_findings
from gradebook.tasks.reporting.sections.trust.provenance import provenance_findings
from gradebook.tasks.reporting.sections.trust.reply_findings import reply_findings
from gradebook.tasks.reporting.source.findings import Finding, Sign
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import counted, rate_words, signed_words

# Where a person should look: rules of thumb, and the numbers stand beside them.
STEADY_FLIP_RATE, LOOSE_FLIP_RATE = 0.05, 0.2
LEAST_AGREEMENT = 0.6  # of the pairs of judge and people, on any criterion


@dataclass(frozen=True, slots=True)
class TrustContents:
    """The findings, the worst first, and how many there are of each sign, in words."""

    counted: str
    findings: tuple[Finding, ...]


def read_trust(source: ReportSource) -> TrustContents:
    """All that bears on whether the run's numbers can be trusted."""
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
    """How steady the judge is, and how far people agree with it; nothing where the run had none."""
    if source.summary.run["judge"] is None:
        return
    yield _flips(source)
    yield from _swaps(source)
    yield _agreement(read_agreement(source))
    yield from _calibration(source)


def _flips(source: ReportSource) -> Finding:
    rows = [row for row in source.summary.noise if row["flip_rate"] is not None]
    if not rows:
        words = (
            "The judge was not asked the same twice: how often it contradicts itself is not known "
            "(replicates: 2 in the judge's file asks it)."
        )
        return Finding(Sign.LOOK, "Steadiness", words)
    worst = max(rows, key=lambda row: row["flip_rate"])
    words = (
        f"Asked the same again, the judge gave another level in at most {rate_words(worst['flip_rate'])} of the pairs: "
        f"on {worst['criterion_id']} of {model_name(worst)}."
    )
    return Finding(_sign_of(worst["flip_rate"]), "Steadiness", words)


def _swaps(source: ReportSource) -> Iterator[Finding]:
    rows = [row for row in source.summary.noise if row["swap_flip_rate"] is not None]
    if rows:
        worst = max(rows, key=lambda row: row["swap_flip_rate"])
        words = (
            f"With the levels in the other order the judge gave another one in at most "
            f"{rate_words(worst['swap_flip_rate'])} of its replies: on {worst['criterion_id']} of {model_name(worst)}."
        )
        yield Finding(_sign_of(worst["swap_flip_rate"]), "Order of levels", words)


def _sign_of(flip_rate: float) -> Sign:
    if flip_rate > LOOSE_FLIP_RATE:
        return Sign.BAD
    return Sign.LOOK if flip_rate > STEADY_FLIP_RATE else Sign.FINE


def _agreement(held: HeldAgreement) -> Finding:
    parts = held.together(JUDGE_RATERS)
    if not parts:
        words = (
            "The judge was never held against people here. gradebook ratings import reads what people said of these "
            "outputs, and this page then shows how far they agree."
        )
        return Finding(Sign.LOOK, "People", words)
    sign, words = _same_level(held)
    biased = [part for part in parts if is_biased(part)]
    if biased:
        words += f" Beyond chance it is {_leaning(held, biased)}."
    return Finding(Sign.LOOK if biased and sign == Sign.FINE else sign, "People", words)


def _same_level(held: HeldAgreement) -> tuple[Sign, str]:
    """How often judge and people gave the same level where they agree least; unknown of scores that are no levels."""
    known, part_count = held.rates(JUDGE_RATERS), len(held.together(JUDGE_RATERS))
    if not known:
        scores = f"their scores on {counted(part_count, 'criterion', 'criteria')} are no levels"
        return Sign.LOOK, f"How often judge and people gave the same level is not known: {scores}."
    worst, rate = known[0]
    people = held.rate(RATERS, worst.criterion_id)
    words = (
        f"Judge and people gave the same level in {rate_words(rate)} of {counted(worst.pair_count, 'pair')} "
        f"on {worst.criterion_id}"
    )
    words += f", the least of {len(known):,} criteria" if len(known) > 1 else ""
    words += f"; people among themselves in {rate_words(people)}." if people is not None else "."
    if part_count > len(known):
        words += f" On {counted(part_count - len(known), 'more', 'more')} their scores are no levels."
    is_bad = rate < LEAST_AGREEMENT and (people is None or rate < people)
    return Sign.BAD if is_bad else Sign.FINE, words


def _leaning(held: HeldAgreement, biased: Sequence[AgreementPart]) -> str:
    ways = {"kinder": [part for part in biased if is_too_kind(held, part)]}
    ways["stricter"] = [part for part in biased if part not in ways["kinder"]]
    return " and ".join(f"{way} than people on {', '.join(map(_bias, found))}" for way, found in ways.items() if found)


def _bias(part: AgreementPart) -> str:
    return f"{part.criterion_id} ({signed_words(part.measure('bias').value)})"


def _calibration(source: ReportSource) -> Iterator[Finding]:
    means, fault = source.summary.means, source.summary.calibration_fault
    if fault:
        yield Finding(Sign.LOOK, "Calibration", f"No means could be corrected by people's ratings: {fault}")
    if means:
        sign = Sign.LOOK if any(map(is_off, means)) else Sign.FINE
        yield Finding(sign, "Calibration", corrected_reading(source, means))
