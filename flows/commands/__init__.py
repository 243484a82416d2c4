"""The commands of `gradebook`, a module for each command or for a few that belong together.

flows.cli imports a module when one of its commands is chosen, so a module imports whatever its commands need at its
top. Imports inside a function are left for two cases: a library that only one of a module's commands needs, or only
one of its output forms, and that takes long to import; and flows.server, which has to set Prefect up before the first
import of Prefect.

options  options that several commands share, exit codes, and printing of JSON
"""
