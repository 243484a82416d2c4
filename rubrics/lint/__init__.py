"""Lint of rubrics: rules, one module per family.

linting      lint_text, rules: all findings about a rubric file, and all rules
findings     Rule, Remark, LintFinding, register_rule
rubric_lint  the check `rubric_lint`: lint of outputs that are rubrics
Everything else is internal to this package.
"""
