"""Steps of a shard's outputs laid end to end, each with the output that it led to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.check_kit.columns import Mask, to_mask

NO_STEPS = "no steps: the output came without a trajectory"
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LaidOutSteps:
    """Steps of all outputs in order. has_steps: (output,). owners: (step,), index of the step's output."""

    row_count: int
    has_steps: Mask
    owners: Places
    steps: pa.StructArray

    def field(self, name: str) -> pa.Array:
        """One field of the steps: (step,)."""
        return self.steps.field(name)

    def is_kind(self, *kinds: str) -> Mask:
        """Whether each step is of one of the kinds: (step,)."""
        return to_mask(pc.is_in(self.field("kind"), pa.array(kinds, pa.string())))

    @property
    def is_call(self) -> Mask:
        """Whether each step is a call of a tool or a retriever: (step,)."""
        return self.is_kind("tool", "retrieval")

    @property
    def has_error(self) -> Mask:
        """Whether each step ended in an error: (step,)."""
        return to_mask(self.field("error").is_valid())

    def count(self, is_counted: Mask) -> Places:
        """Number of the chosen steps of each output: (output,)."""
        return np.bincount(self.owners[is_counted], minlength=self.row_count)

    def total(self, name: str) -> pa.DoubleArray:
        """Sum of a field over the steps of each output that have it: (output,); null where none has it."""
        values = self.field(name)
        is_known = to_mask(values.is_valid())
        known = values.drop_null().cast(pa.float64()).to_numpy()
        sums = np.bincount(self.owners[is_known], weights=known, minlength=self.row_count)
        return pa.array(sums, pa.float64(), mask=self.count(is_known) == 0)

    def unscored_without_steps(self, found: CheckVerdicts) -> CheckVerdicts:
        """Verdicts with those of outputs without steps withdrawn, and the reason."""
        has_steps = pa.array(self.has_steps)
        nothing = pa.scalar(None, pa.string())
        reasons = nothing if found.reasons is None else found.reasons
        return CheckVerdicts(
            pc.if_else(has_steps, found.is_passed, pa.scalar(None, pa.bool_())),
            pc.if_else(has_steps, found.evidence, nothing),
            pc.if_else(has_steps, reasons, NO_STEPS),
            None if found.level_ids is None else pc.if_else(has_steps, found.level_ids, nothing),
        )


def lay_out(shard: pa.Table) -> LaidOutSteps:
    """Lay out the steps of a shard with the column `steps`."""
    column = shard.column("steps").combine_chunks()
    has_steps = to_mask(column.is_valid())
    return LaidOutSteps(
        len(column), has_steps, pc.list_parent_indices(column).cast(pa.int64()).to_numpy(), pc.list_flatten(column)
    )


def is_named(names: pa.Array, wanted: Sequence[str]) -> Mask:
    """Whether each name is one of the wanted: (step,)."""
    return to_mask(pc.is_in(names, pa.array(wanted, pa.string())))
