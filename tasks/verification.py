"""What was held against what in the ledger, what does not agree, and what could not be checked."""

from dataclasses import asdict, dataclass, field
from typing import Any

MOST_FINDINGS_KEPT = 1_000

# Why a judgment could not be checked, or not all of it.
FEEDBACK = "feedback texts"
JUDGE_UNKNOWN = "judgments of runs that did not record their judge"
UNPUBLISHED = "judgments of runs that were never published"
PACKED = "judgments of several criteria a request"
WITH_MEDIA = "judgments of cases with images or sounds"
LOGPROBS = "replies whose log-probabilities were not kept"
NOT_REREAD = "replies that can't be read again"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not agree. judgment_id: None where a verdict has no judgment."""

    judgment_id: str | None
    run_id: str
    subject: str  # request_key, output, output_id, criterion, status, level_id, distribution, prompt_digest, verdict
    found: str | None
    expected: str | None


@dataclass(slots=True)
class Verification:
    """What was held against what, and what does not agree. findings: the first thousand.

    not_checked_count: judgments whose key was not worked out anew, or whose reply was not read again; not_recomputed
    says for which reason, and how many.
    """

    judgment_count: int = 0
    recomputed_count: int = 0  # judgments whose key was worked out anew
    reread_count: int = 0  # replies that were read again
    verdict_count: int = 0
    not_checked_count: int = 0
    not_recomputed: dict[str, int] = field(default_factory=dict)  # why -> how many
    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """One JSON object: what `--json` prints."""
        return asdict(self)

    def skip(self, why: str) -> None:
        """Count a judgment that can't be held against all that it came from."""
        self.not_checked_count += 1
        self.not_recomputed[why] = self.not_recomputed.get(why, 0) + 1

    def find(self, finding: Finding) -> None:
        """Count a finding, and keep it while there are few."""
        self.finding_count += 1
        if len(self.findings) < MOST_FINDINGS_KEPT:
            self.findings.append(finding)
