-- stg_points_intervals: one row per scope, scope_id, model, checkpoint of a points rubric, with the 95% bootstrap
-- interval on the mean. Empty for any other rubric. Python draws the bootstrap from int_scores_unioned.
with source as (select * from source_points_intervals),

final as (
    select
        scope,
        scope_id,
        model,
        checkpoint,
        ci_low,
        ci_high,
    from source
)

select * from final
