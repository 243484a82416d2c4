-- example_outputs: one row per output_id of the run $1 in the connection's narrowed set, with its feedback and its
-- texts, cut to $2 characters each.
with final as (
    select
        scores.* exclude (run_id),
        left(outputs.prompt, $2) as prompt,
        left(outputs.output, $2) as output,
        length(outputs.output) as output_length,
        left(outputs.reference, $2) as reference,
        list_transform(outputs.context, lambda text: left(text, $2)) as context,
        told.feedback,
    from output_scores as scores
    inner join outputs on scores.output_id = outputs.output_id
    inner join output_feedback as told on scores.run_id = told.run_id and scores.output_id = told.output_id
    where scores.run_id = $1
)

select * from final
