-- run_comparisons: one row per run_id, pair of models and checkpoints, scope and scope_id. Python measures them before
-- the run is published. Scores are 0..1, a is the baseline, b is the run, differences are b - a.
-- empty without: source_run_comparisons
with measured as (select * from stg_run_comparisons),

final as (
    select *
    from measured
)

select * from final
