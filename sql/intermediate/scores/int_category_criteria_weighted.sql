-- int_category_criteria_weighted: one row per category, criterion_number in the category or below it. A per-case
-- criterion belongs to the category that its row names, with the category_number below 0 and the output_number of its
-- output. category_weight is the weight within the category, 1 each where the category has no weighted criterion.
-- category_base is the part of it in the category's denominator: the positive weights. weight_rank is 2 for a category
-- with positive weights, 1 with penalties only, 0 with no weight.
-- materialized: table
with criteria as (select * from int_criteria_weighted),

joined as (
    select
        weights.category,
        criteria.* exclude (category, weight),
        weights.weight * coalesce(trees.positive_weight, 1.0) as weight,
    from source_category_weights as weights
    inner join criteria on weights.criterion_id = criteria.criterion_id and not criteria.is_per_case
    left join int_trees_summed as trees on weights.category = trees.root
    union all by name
    select *
    from criteria
    where is_per_case
),

numbers as (
    select category, (row_number() over (order by category))::integer as number,
    from (select distinct category from joined)
),

ranked as (
    select
        joined.*,
        numbers.number,
        max(if(joined.weight > 0, 2, if(joined.weight < 0, 1, 0)))
            over (partition by joined.output_number, numbers.number) as weight_rank,
    from joined
    inner join numbers on joined.category = numbers.category
),

final as (
    select
        category,
        if(is_per_case, -number, number) as category_number,
        output_number,
        group_number,
        criterion_number,
        is_required,
        pass_mark,
        weight_share,
        weight_rank,
        if(weight_rank = 0, 1.0, weight) as category_weight,
        greatest(category_weight, 0.0) as category_base,
    from ranked
)

select * from final
