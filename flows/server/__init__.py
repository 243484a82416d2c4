"""Flows run by a command in its own process, and the Prefect server that they report to.

start    evaluate_here: run a flow, with Prefect set up, until it ends or its server is lost
night    evaluate_night_here: the same for the nightly flow
shared   SharedServer: the server of a person's commands, where Prefect's settings name no other
process  the script that this server's process runs
database a new database of Prefect, without its migrations
"""
