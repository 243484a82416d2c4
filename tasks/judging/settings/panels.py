"""Panels and cascades of judges, and the votes (opinions) wanted from each judge per output."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gradebook.rubrics.prompts.combine_opinions import Aggregate
from gradebook.rubrics.prompts.prompt import DEFAULT_STYLE, PromptStyle
from gradebook.tasks.judging.settings.judge import JudgeSettings, ReplaySettings, Share, identity_digest

PlainJudge = JudgeSettings | ReplaySettings
FIRST, THEN = 0, 1  # indices of a cascade's members


@dataclass(frozen=True, slots=True)
class Opinion:
    """One vote wanted on an output: its judge, its replicate number and its order of levels."""

    judge_index: int = 0
    replicate: int = 0
    is_swapped: bool = False  # position-bias control with the levels reversed; counts in no verdict


ONLY = Opinion()


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class When(_Written):
    """Condition for asking the second judge of a cascade.

    share_below: the probability of the first judge's most probable level is lower than this.
    """

    share_below: Share | None = None
    disagreement: bool = False
    criteria: tuple[str, ...] = ()  # criteria that only the second judge is asked
    unscored: bool = True


class PanelFile(_Written):
    """Panel as written in a judge file."""

    panel: Annotated[tuple[str, ...], Field(min_length=2, max_length=32)]
    aggregate: Aggregate = "mean"


class Steps(_Written):
    """The two judges of a cascade as written in a judge file."""

    first: str
    then: str
    when: When = When()


class CascadeFile(_Written):
    """Cascade as written in a judge file."""

    cascade: Steps


@dataclass(frozen=True, slots=True)
class PanelSettings:
    """Several judges that are each asked every question; their votes are combined."""

    members: tuple[PlainJudge, ...]
    aggregate: Aggregate = "mean"

    @property
    def judge(self) -> str:
        """Name of the panel in tables."""
        return f"panel({', '.join(member_names(self))})"

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that affect a verdict: the judges, the votes of each, and the aggregate."""
        return {
            "kind": "panel",
            "aggregate": self.aggregate,
            "members": [_member_identity(one) for one in self.members],
        }

    @property
    def judge_digest(self) -> str:
        """Digest of the identity, 32 hex digits."""
        return identity_digest(self.identity)


@dataclass(frozen=True, slots=True)
class CascadeSettings:
    """First judge, and a second judge for outputs where the first is unsure."""

    first: PlainJudge
    then: PlainJudge
    when: When = field(default_factory=When)

    @property
    def members(self) -> tuple[PlainJudge, ...]:
        """Both judges, in the order of asking."""
        return (self.first, self.then)

    @property
    def judge(self) -> str:
        """Name of the cascade in tables."""
        return f"cascade({', '.join(member_names(self))})"

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that affect a verdict: both judges, and the condition for the second."""
        members = [_member_identity(one) for one in self.members]
        return {"kind": "cascade", "when": self.when.model_dump(mode="json"), "members": members}

    @property
    def judge_digest(self) -> str:
        """Digest of the identity, 32 hex digits."""
        return identity_digest(self.identity)


Judge = PlainJudge | PanelSettings | CascadeSettings


def members_of(judge: Judge) -> tuple[PlainJudge, ...]:
    """Judges of a panel or cascade; a plain judge alone."""
    return judge.members if isinstance(judge, PanelSettings | CascadeSettings) else (judge,)


def online_members(judge: Judge | None) -> tuple[JudgeSettings, ...]:
    """Members that are asked over the network."""
    return tuple(one for one in members_of(judge) if isinstance(one, JudgeSettings)) if judge else ()


def writer_of(judge: Judge) -> PlainJudge:
    """Judge that writes texts for a run: a cascade's second judge, else the first one asked over the network."""
    members = members_of(judge)
    ranked = reversed(members) if isinstance(judge, CascadeSettings) else members
    return next((one for one in ranked if isinstance(one, JudgeSettings)), members[0])


def member_names(judge: Judge) -> tuple[str, ...]:
    """Names of the members in tables; a repeated name gets a suffix such as `#2`."""
    seen: Counter[str] = Counter()
    names = []
    for member in members_of(judge):
        seen[member.judge] += 1
        names.append(member.judge if seen[member.judge] == 1 else f"{member.judge}#{seen[member.judge]}")
    return tuple(names)


def wanted_opinions(judge: Judge, criterion_id: str = "") -> tuple[Opinion, ...]:
    """Votes that a criterion may need per output, grouped by judge; each judge's position-bias control is last."""
    skipped = {FIRST} if isinstance(judge, CascadeSettings) and criterion_id in judge.when.criteria else set()
    return tuple(
        opinion
        for index, member in enumerate(members_of(judge))
        if index not in skipped
        for opinion in _member_opinions(index, member)
    )


def list_opinions(judge: Judge, criterion_id: str) -> tuple[Opinion, ...]:
    """Votes that a criterion of claims or steps may need per output: recorded replies hold none, and their levels have
    one order.
    """
    members = members_of(judge)
    return tuple(
        opinion
        for opinion in wanted_opinions(judge, criterion_id)
        if isinstance(members[opinion.judge_index], JudgeSettings) and not opinion.is_swapped
    )


def is_at_most(judge: Judge, opinion: Opinion, opinions: Sequence[Opinion]) -> bool:
    """Whether a vote, of those on a criterion, is asked only where the first judge of a cascade is unsure."""
    return isinstance(judge, CascadeSettings) and opinion.judge_index == THEN and opinions[0].judge_index == FIRST


def has_several(judge: Judge) -> bool:
    """Whether a verdict may use more than one vote, or be measured by another."""
    return wanted_opinions(judge) != (ONLY,)


def drawn_rows(judge: Judge, opinion: Opinion, output_ids: Sequence[str], rows: Sequence[int]) -> Sequence[int]:
    """Rows whose outputs are in the sample for this vote; drawn by a hash, the same in each run."""
    purpose, share = _sample(judge, opinion)
    return rows if share >= 1 else [row for row in rows if _drawn_number(purpose, output_ids[row]) < share]


def drawn_opinions(
    judge: Judge, opinions: Sequence[Opinion], output_ids: Sequence[str]
) -> Iterator[tuple[int, Opinion]]:
    """Votes wanted on some outputs, each with the output's row: output by output."""
    drawn = {opinion: set(drawn_rows(judge, opinion, output_ids, range(len(output_ids)))) for opinion in opinions}
    for row in range(len(output_ids)):
        yield from ((row, opinion) for opinion, rows in drawn.items() if row in rows)


def _sample(judge: Judge, opinion: Opinion) -> tuple[str, float]:
    member = members_of(judge)[opinion.judge_index]
    if isinstance(member, JudgeSettings) and opinion.is_swapped:
        return "swap", member.swap_share
    if isinstance(member, JudgeSettings) and opinion.replicate > 0:
        return "replicates", member.replicate_share
    return "", 1.0


def asked_as(judge: Judge, opinion: Opinion) -> PlainJudge:
    """Judge asked for a vote, with the order of levels of that vote."""
    member = members_of(judge)[opinion.judge_index]
    return swapped(member) if opinion.is_swapped and isinstance(member, JudgeSettings) else member


def style_of(judge: Judge, opinion: Opinion) -> PromptStyle:
    """Form of the prompt for a vote."""
    asked = asked_as(judge, opinion)
    return asked.style if isinstance(asked, JudgeSettings) else DEFAULT_STYLE


def swapped(settings: JudgeSettings) -> JudgeSettings:
    """Same judge with the levels in the opposite order."""
    return settings.model_copy(update={"level_order": settings.style.swapped.level_order})


def verdict_digest(judge: Judge) -> str:
    """Digest of all settings that affect a run's verdicts, 32 hex digits; the judge's own if it gives one vote."""
    return identity_digest(_member_identity(judge)) if has_several(judge) else judge.judge_digest


def _member_identity(judge: Judge) -> dict[str, Any]:
    """Identity of a judge, with the settings for its replicates and its position-bias control."""
    if not isinstance(judge, JudgeSettings) or (judge.replicates == 1 and not judge.swap_share):
        return judge.identity
    shares = {name: getattr(judge, name) for name in ("replicates", "replicate_share", "swap_share")}
    return judge.identity | {"opinions": shares}


def _member_opinions(index: int, member: PlainJudge) -> list[Opinion]:
    if not isinstance(member, JudgeSettings):
        return [Opinion(index)]
    replicate_count = member.replicates if member.replicate_share else 1
    opinions = [Opinion(index, replicate) for replicate in range(replicate_count)]
    return [*opinions, *([Opinion(index, is_swapped=True)] if member.swap_share else [])]


def _drawn_number(purpose: str, output_id: str) -> float:
    """Pseudorandom number in 0..1, the same in each run."""
    drawn = hashlib.blake2b(f"{purpose}|{output_id}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64
