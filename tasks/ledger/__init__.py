"""Paid replies: journals settled into the ledger, verified, summed up and recorded.

ledger          settle_journals, settle_run, held_judgments, find_judgments: the table `judgments`
spending        read_spending, Spending: cost of a run or a lake, by criterion, judge, day and stage
verify          verify_ledger, Verification, Verifier, misread: keys, replies and verdicts recomputed
past_judges     PastJudge, read_past_judge: the judge of a past run
recordings      write_recording, refuse_record: replies of a run as a file for `replay:FILE`
"""
