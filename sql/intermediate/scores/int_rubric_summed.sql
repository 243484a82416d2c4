-- int_rubric_summed: the one row of this run: its settings, and the totals of the rubric's criteria, all and the
-- required ones. Negative weights occur in points rubrics. has_own_weights: outputs have criteria with a weight that
-- others lack, per-case ones or by a condition.
-- materialized: table
with run as (select * from stg_run),

criteria as (select * from int_criteria_weighted),

summed as (
    select
        count(*) as criterion_count,
        countif(not is_required) as optional_count,
        totals_of(weight, is_weighted, is_gate, threshold) as totals,
    from criteria
    where not is_per_case
),

required as (
    select totals_of(weight, is_weighted, is_gate, threshold) as required_totals,
    from criteria
    where not is_per_case and is_required
),

final as (
    select
        run.*,
        summed.criterion_count,
        summed.optional_count,
        summed.totals,
        required.required_totals,
        exists (select 1 from int_trees_summed) as has_tree,
        exists (select 1 from criteria where is_per_case and is_weighted)
            or exists (select 1 from int_conditional_gaps where is_unmet and is_weighted) as has_own_weights,
    from run
    cross join summed
    cross join required
)

select * from final
