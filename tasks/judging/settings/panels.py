"""Judges made of judges, and how many opinions each judge gives of an output."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gradebook.rubrics.prompts.combine_opinions import Aggregate
from gradebook.rubrics.prompts.prompt import DEFAULT_STYLE, PromptStyle
from gradebook.tasks.judging.settings.judge import JudgeSettings, ReplaySettings, Share, identity_digest

PlainJudge = JudgeSettings | ReplaySettings
FIRST, THEN = 0, 1  # the members of a cascade


@dataclass(frozen=True, slots=True)
class Opinion:
    """One of the opinions that are wanted of an output: whose, which of its own, in which order of levels."""

    judge_index: int = 0
    replicate: int = 0
    is_swapped: bool = False  # levels in the other order: for measuring, it counts in no verdict


ONLY = Opinion()


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class When(_Written):
    """When the second judge of a cascade is asked. share_below: the first's most probable level has less."""

    share_below: Share | None = None
    disagreement: bool = False
    criteria: tuple[str, ...] = ()  # of these the first is not asked at all
    unscored: bool = True


class PanelFile(_Written):
    """A panel as it is written."""

    panel: Annotated[tuple[str, ...], Field(min_length=2, max_length=32)]
    aggregate: Aggregate = "mean"


class Steps(_Written):
    """A cascade's two judges as they are written."""

    first: str
    then: str
    when: When = When()


class CascadeFile(_Written):
    """A cascade as it is written."""

    cascade: Steps


@dataclass(frozen=True, slots=True)
class PanelSettings:
    """Several judges, each asked everything; their opinions are combined."""

    members: tuple[PlainJudge, ...]
    aggregate: Aggregate = "mean"

    @property
    def judge(self) -> str:
        """The panel's name in tables."""
        return f"panel({', '.join(member_names(self))})"

    @property
    def identity(self) -> dict[str, Any]:
        """What bears on a verdict: the judges, how many opinions each gives, and how they are combined."""
        return {
            "kind": "panel",
            "aggregate": self.aggregate,
            "members": [_member_identity(one) for one in self.members],
        }

    @property
    def judge_digest(self) -> str:
        """Hash of the identity, 32 hex digits."""
        return identity_digest(self.identity)


@dataclass(frozen=True, slots=True)
class CascadeSettings:
    """A judge that is asked first, and another one where the first is unsure."""

    first: PlainJudge
    then: PlainJudge
    when: When = field(default_factory=When)

    @property
    def members(self) -> tuple[PlainJudge, ...]:
        """The judges, in the order of their asking."""
        return (self.first, self.then)

    @property
    def judge(self) -> str:
        """The cascade's name in tables."""
        return f"cascade({', '.join(member_names(self))})"

    @property
    def identity(self) -> dict[str, Any]:
        """What bears on a verdict: both judges, and when the second is asked."""
        members = [_member_identity(one) for one in self.members]
        return {"kind": "cascade", "when": self.when.model_dump(mode="json"), "members": members}

    @property
    def judge_digest(self) -> str:
        """Hash of the identity, 32 hex digits."""
        return identity_digest(self.identity)


Judge = PlainJudge | PanelSettings | CascadeSettings


def members_of(judge: Judge) -> tuple[PlainJudge, ...]:
    """The judges that are asked; of a plain one itself."""
    return judge.members if isinstance(judge, PanelSettings | CascadeSettings) else (judge,)


def online_members(judge: Judge | None) -> tuple[JudgeSettings, ...]:
    """Those among them that are asked over the network."""
    return tuple(one for one in members_of(judge) if isinstance(one, JudgeSettings)) if judge else ()


def writer_of(judge: Judge) -> PlainJudge:
    """Who writes texts for a run: of a cascade the second judge, else the first that is asked over the network."""
    members = members_of(judge)
    ranked = reversed(members) if isinstance(judge, CascadeSettings) else members
    return next((one for one in ranked if isinstance(one, JudgeSettings)), members[0])


def member_names(judge: Judge) -> tuple[str, ...]:
    """The members' names in tables; a second one of the same name has `#2` behind it."""
    seen: Counter[str] = Counter()
    names = []
    for member in members_of(judge):
        seen[member.judge] += 1
        names.append(member.judge if seen[member.judge] == 1 else f"{member.judge}#{seen[member.judge]}")
    return tuple(names)


def wanted_opinions(judge: Judge, criterion_id: str = "") -> tuple[Opinion, ...]:
    """The opinions that a criterion may take of an output, a judge after the other; the swapped one of each last."""
    skipped = {FIRST} if isinstance(judge, CascadeSettings) and criterion_id in judge.when.criteria else set()
    return tuple(
        opinion
        for index, member in enumerate(members_of(judge))
        if index not in skipped
        for opinion in _member_opinions(index, member)
    )


def has_several(judge: Judge) -> bool:
    """Whether a verdict may rest on more than one opinion, or be measured by one."""
    return wanted_opinions(judge) != (ONLY,)


def drawn_rows(judge: Judge, opinion: Opinion, output_ids: Sequence[str], rows: Sequence[int]) -> Sequence[int]:
    """Those of some rows whose outputs are in the sample that gets this opinion: by a hash, the same in each run."""
    purpose, share = _sample(judge, opinion)
    return rows if share >= 1 else [row for row in rows if _drawn_number(purpose, output_ids[row]) < share]


def _sample(judge: Judge, opinion: Opinion) -> tuple[str, float]:
    member = members_of(judge)[opinion.judge_index]
    if isinstance(member, JudgeSettings) and opinion.is_swapped:
        return "swap", member.swap_share
    if isinstance(member, JudgeSettings) and opinion.replicate > 0:
        return "replicates", member.replicate_share
    return "", 1.0


def asked_as(judge: Judge, opinion: Opinion) -> PlainJudge:
    """Who is asked for an opinion, the order of levels as it is to be."""
    member = members_of(judge)[opinion.judge_index]
    return swapped(member) if opinion.is_swapped and isinstance(member, JudgeSettings) else member


def style_of(judge: Judge, opinion: Opinion) -> PromptStyle:
    """How the question for an opinion is written."""
    asked = asked_as(judge, opinion)
    return asked.style if isinstance(asked, JudgeSettings) else DEFAULT_STYLE


def swapped(settings: JudgeSettings) -> JudgeSettings:
    """The same judge, shown the levels in the other order."""
    return settings.model_copy(update={"level_order": settings.style.swapped.level_order})


def verdict_digest(judge: Judge) -> str:
    """Hash of all that bears on a run's verdicts, 32 hex digits; of a judge with one opinion its own."""
    return identity_digest(_member_identity(judge)) if has_several(judge) else judge.judge_digest


def _member_identity(judge: Judge) -> dict[str, Any]:
    """A judge's identity, with what makes its opinions more than one."""
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
    """A number in 0..1 that looks drawn, and is the same each time."""
    drawn = hashlib.blake2b(f"{purpose}|{output_id}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64
