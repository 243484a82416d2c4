-- further_replicates: one row per output_id, criterion_id, replicate that the run $run_id asked beyond `asked`: an
-- escalation, or replicates of a verdict without a score.
with final as (
    select distinct
        asked.case_id,
        asked.model,
        asked.checkpoint,
        asked.sample_index,
        asked.output_id,
        asked.criterion_id,
        judgments.request_key,
        judgments.replicate,
    from judgments
    inner join asked on judgments.output_id = asked.output_id and judgments.criterion_id = asked.criterion_id
    where
        judgments.run_id = $run_id
        and judgments.replicate > 0
        and asked.replicate = 0
        and judgments.request_key not in (select request_key from asked)
)

select * from final
