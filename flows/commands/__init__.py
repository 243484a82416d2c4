"""The commands of `gradebook`: one module for each command or group of related commands.

flows.cli imports a module only when one of its commands is chosen, so modules import at the top. Slow libraries that
only one command or output format of a module needs are imported inside a function.

options  options that several commands share, their completion, exit codes, and printing of JSON
"""
