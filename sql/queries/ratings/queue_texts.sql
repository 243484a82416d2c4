-- queue_texts: one row per output_id of the relation chosen_outputs: the texts that a rater sees. Models stay
-- out of it.
with final as (
    select
        outputs.output_id,
        outputs.prompt,
        outputs.output,
        outputs.reference,
        outputs.context,
        outputs.metadata ->> '$.audio' as audio,
    from outputs
    inner join chosen_outputs on outputs.output_id = chosen_outputs.output_id
)

select * from final
