"""What the model on loopback writes where it is asked for a text and no verdict."""

import hashlib

TEXTS = {"empty": "", "length": "Half an ans", "think": "<think>Hm.</think>\nYes."}


def plain_text(prompt: str, fault: str) -> str:
    """An answer drawn from the prompt, or what the fault's word says."""
    return TEXTS.get(fault, f"An answer to {hashlib.sha256(prompt.encode('utf-8', 'replace')).hexdigest()[:8]}.")
