"""Prefect's server of one command.

start    evaluate_here, evaluate_night_here: an evaluation begun in a shell
own      OwnServer: a server that ends with its command
process  the script of that server
lost     a server that stopped answering, as a sentence
"""
