"""What is asked of a judge and what comes back."""

from dataclasses import dataclass
from typing import Literal

from rubrics.judging.prompt import Case
from rubrics.model import Criterion


@dataclass(frozen=True, slots=True)
class Question:
    """One criterion asked of one output. The last four are what recorded replies are found by."""

    output_id: str
    criterion: Criterion
    case: Case
    request_key: str
    replicate: int = 0
    case_id: str = ""
    model: str = ""
    checkpoint: str | None = None
    sample_index: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question: a level, or why there is none."""

    question: Question
    status: Literal["scored", "unscored"]
    level_id: str | None = None
    evidence: str | None = None  # JSON list of quotes
    rationale: str | None = None
    reason: str | None = None  # why unscored
    judgment_id: str | None = None  # the last reply's row; None: no reply came
    cost_usd: float | None = None  # of all replies to this question; None: unknown or none came
    request_count: int = 0
