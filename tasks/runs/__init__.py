"""Requests for evaluations, and the runs made of them.

request            EvaluationRequest: each option of an evaluation, described once
run                Run: request, rubric, judge, lake and folder
resume_command     command_to_resume: the command that resumes a run
function_settings  FunctionSettings: packages whose functions may run
quality_suites     ExpectationSuite, read_quality_suites: a team's expectations about its tables
runner             Runner: where checks are computed
"""
