"""Lint of rubrics: rules, one module a family. `linting` lints a text; `findings` has rules and findings."""
