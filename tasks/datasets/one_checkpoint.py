"""The one checkpoint that all outputs of a dataset belong to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OneCheckpoint:
    """The model and the checkpoint that all outputs of a dataset are of."""

    model: str
    checkpoint: str

    def misfit(self, model: str, checkpoint: str | None) -> str:
        """Why an output of this model and checkpoint does not belong to it; empty where it does."""
        if model != self.model:
            return f"found the model {model!r}, expected {self.model!r}"
        if checkpoint != self.checkpoint:
            return f"found the checkpoint {checkpoint!r}, expected {self.checkpoint!r} or none"
        return ""
