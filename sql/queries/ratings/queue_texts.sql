-- queue_texts: one row per output_id of the relation chosen_outputs: the texts that a rater sees, with an agent's steps
-- as JSON, and the names of the files that it changed, from a list in metadata. Models stay out of it, and so do times
-- and costs, which tell of them.
with final as (
    select
        outputs.output_id,
        outputs.prompt,
        outputs.output,
        outputs.reference,
        outputs.context,
        outputs.metadata ->> '$.audio' as audio,
        coalesce(
            nullif(json_extract_string(outputs.metadata, '$.files_changed[*].path'), []),
            nullif(json_extract_string(outputs.metadata, '$.files_changed[*]'), [])
        ) as files_changed,
        to_json(list_transform(outputs.steps, lambda step: {
            'kind': step.kind,
            'name': case when step.kind <> 'model' then step.name end,
            'input': step.input,
            'output': step.output,
            'error': step.error,
        }))::varchar as steps,
    from outputs
    inner join chosen_outputs on outputs.output_id = chosen_outputs.output_id
)

select * from final
