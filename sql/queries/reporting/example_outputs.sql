-- example_outputs: one row per output_id of the run $run_id that the connection was narrowed to, with its feedback and
-- the first $most_characters characters of each text.
with final as (
    select
        scores.* exclude (run_id),
        left(outputs.prompt, $most_characters) as prompt,
        left(outputs.output, $most_characters) as output,
        length(outputs.output) as output_length,
        left(outputs.reference, $most_characters) as reference,
        list_transform(outputs.context, lambda text: left(text, $most_characters)) as context,
        told.feedback,
        coalesce(
            nullif(json_extract_string(outputs.metadata, '$.files_changed[*].path'), []),
            nullif(json_extract_string(outputs.metadata, '$.files_changed[*]'), [])
        ) as files_changed,
    from output_scores as scores
    inner join outputs on scores.output_id = outputs.output_id
    inner join output_feedback as told on scores.run_id = told.run_id and scores.output_id = told.output_id
    where scores.run_id = $run_id
)

select * from final
