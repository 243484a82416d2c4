-- judgments_to_verify: one row per judgment_id of `chosen`, with the body of the row's own criterion and the
-- output_columns of its output, null where the lake lacks them.
with final as (
    select
        judgments.judgment_id,
        judgments.run_id,
        judgments.request_key,
        judgments.output_id,
        judgments.criterion_id,
        judgments.replicate,
        judgments.status,
        judgments.level_id,
        judgments.distribution,
        judgments.prompt_digest,
        judgments.reply,
        own.body as own_body,
        {output_columns},
    from judgments
    left join outputs on judgments.output_id = outputs.output_id
    left join case_criteria as own
        on judgments.run_id = own.run_id
        and judgments.output_id = own.output_id
        and judgments.criterion_id = own.criterion_id
    where judgments.judgment_id in (select judgment_id from chosen)
)

select * from final
