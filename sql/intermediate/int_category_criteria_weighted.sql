-- int_category_criteria_weighted: one row per category, criterion_number in the category or below it. category_weight
-- is the weight within the category, 1 each where the category has no weighted criterion. category_base is the part of
-- it in the category's denominator: positive weights, or all weights where the category has only penalties. weight_rank
-- is 2 for a category with positive weights, 1 with penalties only, 0 with no weight.
-- materialized: table
with weights as (select * from stg_category_weights),

criteria as (select * from int_criteria_weighted where not is_per_case),

roots as (select * from int_trees_summed),

weighed as (
    select
        weights.category,
        criteria.criterion_number,
        weights.weight * coalesce(roots.positive_weight, 1.0) as weight,
        criteria.pass_mark,
        criteria.weight_share,
        max(if(weights.weight > 0, 2, if(weights.weight < 0, 1, 0)))
            over (partition by weights.category) as weight_rank,
    from weights
    inner join criteria on weights.criterion_id = criteria.criterion_id
    left join roots on weights.category = roots.root
),

final as (
    select
        category,
        dense_rank() over (order by category) as category_number,
        criterion_number,
        pass_mark,
        weight_share,
        weight_rank,
        if(weight_rank = 0, 1.0, weight) as category_weight,
        case weight_rank when 2 then greatest(weight, 0.0) when 1 then weight else 1.0 end as category_base,
    from weighed
)

select * from final
