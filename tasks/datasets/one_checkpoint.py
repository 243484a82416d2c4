"""Single checkpoint of a dataset's outputs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OneCheckpoint:
    """Model and checkpoint of all outputs of a dataset."""

    model: str
    checkpoint: str

    def misfit(self, model: str, checkpoint: str | None) -> str:
        """Fault of an output of another model or checkpoint; empty if it fits."""
        if model != self.model:
            return f"found the model {model!r}, expected {self.model!r}"
        if checkpoint != self.checkpoint:
            return f"found the checkpoint {checkpoint!r}, expected {self.checkpoint!r} or none"
        return ""
