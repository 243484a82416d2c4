-- int_criteria: one row per criterion_id. weight_share is the weight over the sum of positive weights, null for a gate.
-- category_weight is the weight within the category, 1 each where the category has no weighted criterion. category_base
-- is the part of it that the category's denominator counts: positive weights, or all where it has only penalties.
with criteria as (select * from stg_criteria),

totalled as (
    select
        *,
        nullif(sum(greatest(weight, 0.0)) over (), 0.0) as positive_weight,
        bool_or(weight <> 0) over (partition by category) as has_weights,
        bool_or(weight > 0) over (partition by category) as has_positive_weights,
    from criteria
),

final as (
    select
        criterion_id,
        category,
        weight,
        weight <> 0 as is_weighted,
        is_gate,
        threshold,
        case when is_gate then gate_threshold else threshold end as pass_mark,
        case when not is_gate then coalesce(weight / positive_weight, 0.0) end as weight_share,
        case when has_weights then weight else 1.0 end as category_weight,
        case
            when has_positive_weights then greatest(weight, 0.0)
            when has_weights then weight
            else 1.0
        end as category_base,
    from totalled
)

select * from final
