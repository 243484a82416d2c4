-- stg_points_intervals: one row per scope, scope_id, model, checkpoint of a points rubric: the 95% interval on its
-- mean, 0..1, as the bootstrap drew it. Empty for any other rubric.
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
