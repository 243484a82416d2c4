"""Prompts and replies of a judge, without requests: messages, digests and parsed replies.

prompt            Case, PromptStyle, render_messages, request_key, criterion_digest, case_digest; repair_messages
prompt_text       shown_json, inert_text, fold_text: text written by others; draw_labels: opaque labels of levels
trajectory        trajectory_of: steps of an agent, long ones shortened
chat              read_chat, shown_prompt: prompts of chat messages
media             read_media, has_media: images and sounds of a case as content parts; media_kinds: their formats
batched_criteria  render_packed, read_packed: several criteria in one request
reply_parser      ReadReply, read_reply, read_ending, parse_reply
distributions     read_distribution, verdict_of, read_levels: distributions over levels, and their scores
decisions         typed_question, read_answers: criteria as questions that are answered with probabilities
typed_parts       preference_question, step_questions_of, claim_questions: parts of outputs as such questions
combine_opinions  combine_opinions, find_unsure: one verdict from several votes
claims            render_extraction, render_verification: claims of a text, and their verification against a source
step_marks        render_steps, read_steps: steps of an agent labelled one by one
preference        render_preference: which of two answers is better
feedback          render_output_feedback, render_group_feedback, read_feedback
objects           render_object_messages, object_schema, read_object: JSON objects that a model writes
guidance          Proposals, guidance_material, with_guidance: better guidance that a model proposes
model_families    family_of: the family of a model, by its name
`texts/` has the prompt files; their content is part of a judgment's identity. Everything else is internal.
"""
