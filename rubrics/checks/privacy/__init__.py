"""Checks for personal data and secrets. `phone_numbers` and `pii_kinds` serve other families too."""
