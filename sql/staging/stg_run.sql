-- stg_run: the one row of this run. missing is the rubric's policy for missing scores (null, skip or zero), as text;
-- pass_threshold is in 0..1. weights: what counts once in means, cases or outputs.
with runs as (select * from source_run),

final as (
    select
        run_id,
        coalesce(missing, 'null') as missing,
        pass_threshold,
        coalesce(require_thresholds, false) as require_thresholds,
        coalesce(weights, 'cases') as weights,
    from runs
)

select * from final
