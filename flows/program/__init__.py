"""The program `gradebook`, and the process that runs its commands without importing all again.

entry     main: a command, run by a ready process that is like this one or, without one, here
likeness  likeness: what a process is like when it starts
protocol  the talk of a command with the ready process
ready     leave_ready_process; the program of the ready process, which runs each command in a fork of itself
"""
