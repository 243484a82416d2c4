-- penalised_outputs: one row per model, checkpoint of the run $run_id with outputs that have no score because their
-- criteria are penalties only: output_count of of_count outputs.
with final as (
    select
        model,
        checkpoint,
        countif(unscored_reason like 'only_penalties:%') as output_count,
        count(*) as of_count,
    from output_scores
    where run_id = $run_id
    group by model, checkpoint
    having output_count > 0
    order by model, checkpoint nulls first
)

select * from final
