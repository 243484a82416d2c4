-- answering_models: one row per judge that answered requests of the run $run_id: the models that answered, as the
-- endpoint named them.
with final as (
    select judge, array_agg(distinct model_returned) as models,
    from judgments
    where run_id = $run_id and model_returned is not null
    group by judge
)

select * from final
