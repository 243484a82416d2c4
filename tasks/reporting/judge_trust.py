"""Whether a run's judge may be trusted: one answer, and a statement on each ground with the command behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.text.wording import counted, rate_words, signed_words
from gradebook.tasks.agreement.mart import RATERS
from gradebook.tasks.agreement.raters import RunRaters, compare_raters
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.report_source import ReportSource, opened_source
from gradebook.tasks.reporting.sections.agreement import CurrentAgreement, rated_words, read_agreement
from gradebook.tasks.reporting.sections.trust import (
    NOT_ASKED,
    Finding,
    Sign,
    agreement_finding,
    anchor_findings,
    audit_findings,
    calibration_findings,
    consistency_findings,
    reply_findings,
    trust_states,
    trust_words,
)
from gradebook.tasks.system.shell import shell_line


@dataclass(frozen=True, slots=True)
class Ground:
    """Ground of the answer. command: shows or makes its figures; None if no command does."""

    finding: Finding
    command: tuple[str, ...] | None

    def as_json(self) -> dict[str, Any]:
        command = None if self.command is None else shell_line(self.command)
        return {
            "topic": self.finding.topic,
            "sign": self.finding.sign.value,
            "sentence": self.finding.words,
            "command": command,
        }


@dataclass(frozen=True, slots=True)
class TrustAnswer:
    """Answer on a run's judge, and its grounds. criteria: state of each criterion that a judge scores."""

    run_id: str
    rubric: str
    judge: str | None
    answer: str
    criteria: dict[str, str]
    grounds: tuple[Ground, ...]

    def as_json(self) -> dict[str, Any]:
        head = {"run_id": self.run_id, "rubric": self.rubric, "judge": self.judge, "answer": self.answer}
        return head | {"criteria": self.criteria, "grounds": [ground.as_json() for ground in self.grounds]}


def read_judge_trust(lake: Lake, run_id: str) -> TrustAnswer:
    """Collect what the lake knows about the judge of a published run. Raises `InputError` for an unknown run."""
    summary = summarise(lake, run_id)
    raters = compare_raters(lake, run_id)
    run = summary.run
    rubric = f"{run['rubric_id']} {run['rubric_version']}"
    with opened_source(lake, summary) as source:
        agreement = read_agreement(source)
        if run["judge"] is None:
            ground = _raters(raters, agreement, lake)
            return TrustAnswer(run_id, rubric, None, NOT_ASKED, {}, (ground,))
        criteria = trust_states(source, agreement)
        grounds = (*_grounds(source, agreement, lake), _raters(raters, agreement, lake))
    return TrustAnswer(run_id, rubric, run["judge"], trust_words(criteria), criteria, grounds)


def _grounds(source: ReportSource, agreement: CurrentAgreement, lake: Lake) -> Iterator[Ground]:
    def of_run(*words: str) -> tuple[str, ...]:
        return ("gradebook", *words, *lake.words())

    run_id = source.run_id
    is_rated = bool(agreement.standings)
    to_rate = of_run("people", "rate", run_id, "--n", "50", "--queue", "random")
    if is_rated:
        yield Ground(agreement_finding(agreement), of_run("people", "agreement", run_id))
    else:
        sentence = "The judge has not been compared with people: nobody rated what it scored."
        yield Ground(Finding(Sign.LOOK, "People", sentence), to_rate)
    corrected = list(calibration_findings(source))
    for finding in corrected:
        yield Ground(finding, of_run("people", "calibrate", run_id))
    yield from (Ground(finding, None) for finding in audit_findings(source))
    if not corrected:
        sentence = "No mean is corrected by people's ratings. A random sample of outputs is to be rated for it."
        yield Ground(Finding(Sign.LOOK, "Calibration", sentence), to_rate)
    has_replicates = any(row["flip_rate"] is not None for row in source.summary.noise)
    for finding in consistency_findings(source):
        yield Ground(finding, of_run("judge", "noise", run_id) if has_replicates else None)
    watched = list(anchor_findings(source))
    for finding in watched:
        yield Ground(finding, of_run("judge", "anchors", "list"))
    if not watched:
        sentence = "No anchors watch this judge: a change of the model behind its name would not be seen."
        yield Ground(Finding(Sign.LOOK, "Judge over time", sentence), of_run("judge", "anchors", "make", run_id))
    for index, finding in enumerate(reply_findings(source)):
        yield Ground(finding, None if index else of_run("lake", "ledger", "verify", "--run", run_id))


def _raters(raters: RunRaters, agreement: CurrentAgreement, lake: Lake) -> Ground:
    """Ground on the raters, on whose ratings the other grounds rest."""
    run_id = raters.run["run_id"]
    if not raters.rows:
        command = ("gradebook", "people", "rate", run_id, "--n", "50", *lake.words())
        return Ground(Finding(Sign.LOOK, "Raters", "Nobody rated the outputs of this run."), command)
    count = sum(row.rating_count for row in raters.rows)
    sentences = [f"{counted(len(raters.rows), 'rater')} gave {counted(count, 'rating')}."]
    parts = [part for part in agreement.together(RATERS) if part.pair_count]
    rates = agreement.rates(RATERS)
    if rates:
        worst, _ = rates[0]
        share = f"{rated_words(worst.measure('percent_agreement'))} of {counted(worst.pair_count, 'pair')}"
        least = ", the least of all criteria" if len(rates) > 1 else ""
        sentences.append(f"They gave the same level on {worst.criterion_id} in {share}{least}.")
    elif not parts:
        sentences.append("No output was rated by two of them, so their agreement is unknown.")
    sentences += [*_severities(raters), *_fast(raters)]
    is_doubtful = len(sentences) > 2 or not rates
    return Ground(
        Finding(Sign.LOOK if is_doubtful else Sign.FINE, "Raters", " ".join(sentences)),
        ("gradebook", "people", "raters", run_id, *lake.words()),
    )


def _severities(raters: RunRaters) -> Iterator[str]:
    """Sentence on the rater who differs most from the others, beyond chance."""
    differences = [(row.rater, row.beside.difference) for row in raters.rows if row.beside.difference.value is not None]
    certain = [
        (name, measure.value or 0.0)
        for name, measure in differences
        if measure.ci_low is not None and measure.ci_high is not None and not measure.ci_low <= 0.0 <= measure.ci_high
    ]
    if certain:
        name, value = max(certain, key=lambda pair: abs(pair[1]))
        way = "stricter" if value < 0 else "more lenient"
        yield f"{name} is {way} than the others ({signed_words(value)})."


def _fast(raters: RunRaters) -> Sequence[str]:
    """Sentence on sheets that were submitted before the output can be read."""
    fast = [pace for pace in raters.paces if pace.fast_sheet_count]
    if not fast:
        return ()
    worst = max(fast, key=lambda pace: pace.fast_sheet_count / pace.sheet_count)
    rate = rate_words(worst.fast_sheet_count / worst.sheet_count)
    return (f"{worst.rater} submitted {rate} of {counted(worst.sheet_count, 'sheet')} before they can be read.",)
