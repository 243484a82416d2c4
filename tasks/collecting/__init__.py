"""Outputs collected from the model under evaluation.

collect      collect_outputs, CollectRequest, Collected: ask every prompt, write the file of outputs
reply_store  ReplyFolder, StoredReplies: journals beside the file of outputs
"""
