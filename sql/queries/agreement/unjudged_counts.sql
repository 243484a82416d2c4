-- unjudged_counts: one row per criterion_id, model, checkpoint with outputs of the run $run_id that people scored
-- instead of the judge, and that the judge scored in no other run. $criteria: these criteria; null: all.
with outputs_of_run as (select output_id, model, checkpoint from output_scores where run_id = $run_id),

final as (
    select preferred.criterion_id, outputs.model, outputs.checkpoint, count(*) as unjudged_count
    from preferred
    inner join outputs_of_run as outputs on preferred.output_id = outputs.output_id
    anti join scores_elsewhere as elsewhere
        on preferred.criterion_id = elsewhere.criterion_id
        and preferred.output_id = elsewhere.output_id
    where $criteria::varchar[] is null or list_contains($criteria, preferred.criterion_id)
    group by preferred.criterion_id, outputs.model, outputs.checkpoint
)

select * from final
