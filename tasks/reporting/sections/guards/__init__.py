"""Section "Rewards": what a reward that rises from checkpoint to checkpoint may hide."""
