"""The commands of `gradebook`: one module for each command or group of related commands.

flows.cli imports a module only when one of its commands is chosen, so modules import at the top. Two cases import
inside a function: slow libraries that only one command or output format of a module needs; and flows.server, which has
to configure Prefect before Prefect is imported.

completion  names that the shell completes
sql_shell   interactive shell of `gradebook sql`
new_rubric  `gradebook rubric new`, for the group of rubric.py
options     options that several commands share, exit codes, and printing of JSON
"""
