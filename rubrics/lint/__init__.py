"""Lint of rubrics: rules over a parsed rubric, and those of the parser.

linting      lint_text, rules: all findings about a rubric file, and all rules
rules        every rule over a parsed rubric
findings     Rule, Remark, LintFinding, register_rule
rubric_lint  the check `rubric_lint`: lint of outputs that are rubrics
Everything else is internal to this package.
"""
