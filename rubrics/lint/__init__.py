"""Lint of rubrics: rules over a parsed rubric, and those of the parser.

linting      lint_text, rules: all findings about a rubric file, and all rules
rules        rules over a parsed rubric; questions: those about texts that ask several things at once
findings     Rule, Remark, LintFinding, register_rule; the rules of the parser
guidance     proposal_faults: guidance that a model proposes, before a judge reads it
rubric_lint  the check `rubric_lint`: lint of outputs that are rubrics
Everything else is internal to this package.
"""
