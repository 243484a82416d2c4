-- int_criteria: one row per criterion_id of the rubric; criterion_number stands for it within this run. weight is what
-- it weighs beside a row's own criteria. weight_share is its part of the sum of positive weights, null for a gate.
-- materialized: table
with criteria as (select * from stg_criteria),

roots as (select * from int_roots where root = ''),

totals as (
    select exact_sum(greatest(weight, 0.0)) as weight,
    from criteria
),

final as (
    select
        (row_number() over (order by criteria.criterion_id))::integer as criterion_number,
        criteria.criterion_id,
        criteria.category,
        criteria.weight * coalesce(roots.positive_weight, 1.0) as weight,
        criteria.weight <> 0 as is_weighted,
        criteria.is_gate,
        criteria.threshold,
        case when criteria.is_gate then criteria.gate_threshold else criteria.threshold end as pass_mark,
        case when not criteria.is_gate then coalesce(criteria.weight / nullif(totals.weight, 0.0), 0.0) end
            as weight_share,
    from criteria
    cross join totals
    left join roots on true
)

select * from final
