"""Flows run by a command in its own process, and the Prefect server that they report to.

start    evaluate_here: run a flow, with Prefect set up, until it ends or its server is lost
night    evaluate_night_here: the same for the nightly flow
shared   SharedServer: the server of a person's commands, where Prefect's settings name no other
process  the script that this server's process runs
port_keeper keep_port, take_port: the port of a killed server, for the one that is started again
database a new database of Prefect, without its migrations
"""
