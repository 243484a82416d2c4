-- int_rubric: the one row of this run, with what the rubric's criteria add up to. Negative weights are those of points
-- rubrics. has_own_weights: some row brought a weighted criterion of its own.
-- materialized: table
with run as (select * from stg_run),

criteria as (select * from int_criteria),

roots as (select * from int_roots),

own as (select * from int_own_criteria),

totals as (
    select
        count(*) as criterion_count,
        coalesce(exact_sum(greatest(weight, 0.0)), 0.0) as positive_weight,
        coalesce(exact_sum(least(weight, 0.0)), 0.0) as negative_weight,
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
        (select count(*) from roots) > 0 as has_tree,
        (select count(*) from own where is_weighted) > 0 as has_own_weights,
    from run
    cross join totals
)

select * from final
