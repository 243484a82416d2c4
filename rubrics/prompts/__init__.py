"""Prompts and replies of a judge, without asking: messages and digests in, parsed replies out.

prompt               Case, PromptStyle, render_messages, request_key, criterion_digest, case_digest
trajectory           trajectory_of: steps of an agent, long ones shortened
chat                 read_chat, shown_prompt: prompts of chat messages
batched_criteria     render_packed, read_packed: several criteria in one request
labels               draw_labels, shuffle_labels: opaque labels of levels
reply_parser         ReadReply, read_reply, read_ending, parse_reply
repairs              repair_messages: asking again after an unusable reply
token_probabilities  read_levels, expected_score: distributions over levels from log-probabilities
combine_opinions     combine_opinions, find_unsure: one verdict from several votes
claims               render_extraction, render_verification: which claims a text makes, and which a source supports
step_marks           render_steps, read_steps: steps of an agent labelled one by one
feedback             render_output_feedback, render_group_feedback, read_feedback
media                read_media, has_media: images and sounds of a case
media_parts          Medium, part_cost: content parts and their cost
prompt_files         with_files: files named in a prompt
untrusted_text       shown_json, inert_text, fold_text: text written by others
model_families       family_of: the family of a model, by its name
`texts/` has the prompt files; their content is part of a judgment's identity. Everything else is internal.
"""
