-- No pair of models, scope and scope_id has two rows of run_comparisons.
-- severity: error
-- empty without: run_comparisons
with compared as (select * from run_comparisons),

final as (
    select
        baseline_model,
        baseline_checkpoint,
        model,
        checkpoint,
        scope,
        scope_id,
        count(*) as row_count,
    from compared
    group by baseline_model, baseline_checkpoint, model, checkpoint, scope, scope_id
    having count(*) > 1
)

select * from final
