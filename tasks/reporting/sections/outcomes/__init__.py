"""Section "Outcomes": what happened in use, beside the scores."""
