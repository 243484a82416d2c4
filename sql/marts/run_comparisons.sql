-- run_comparisons: one row per run_id, pair of models and checkpoints, scope and scope_id. Measured outside SQL, before
-- the run is published: scores are 0..1, a is the baseline, b the run, differences are b - a.
with measured as (select * from stg_run_comparisons),

final as (
    select *
    from measured
)

select * from final
