"""Checks of machine-readable text: JSON, XML, YAML, SQL, Python."""
