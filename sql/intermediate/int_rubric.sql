-- int_rubric: the one row of this run, with what its criteria add up to. Negative weights are those of points rubrics.
with run as (select * from stg_run),

criteria as (select * from int_criteria),

totals as (
    select
        coalesce(sum(greatest(weight, 0.0)), 0.0) as positive_weight,
        coalesce(sum(least(weight, 0.0)), 0.0) as negative_weight,
        count(*) filter (weight > 0) as positive_count,
        count(*) filter (is_weighted) as weighted_count,
        count(*) filter (is_gate) as gate_count,
        count(*) filter (is_weighted and threshold is not null) as threshold_count,
    from criteria
),

final as (
    select
        run.run_id,
        run.missing,
        run.pass_threshold,
        run.require_thresholds,
        totals.*,
        -- Where a rubric asks for nothing, nothing passes or fails.
        run.pass_threshold is not null or totals.gate_count > 0 or run.require_thresholds as has_requirement,
    from run
    cross join totals
)

select * from final
