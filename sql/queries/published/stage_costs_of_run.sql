-- stage_costs_of_run: one row per stage, criterion_id of the run $run_id, in the order of the stages.
with final as (
    select * exclude (run_id)
    from stage_costs
    where run_id = $run_id
    order by
        list_position(['start', 'ingest', 'plan', 'score', 'quality', 'aggregate', 'publish'], stage),
        criterion_id nulls first
)

select * from final
