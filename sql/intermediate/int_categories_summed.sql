-- int_categories_summed: one row per category of the rubric, with the totals of its criteria. weight is the sum of
-- their weight shares, null if all are gates; parent is the enclosing category.
-- materialized: table
with criteria as (select * from int_category_criteria_weighted),

categories as (select * from stg_categories),

totals as (
    select
        category,
        any_value(category_number)::integer as category_number,
        count(*) as criterion_count,
        any_value(weight_rank) as weight_rank,
        exact_sum(category_base) as base_weight,
        count(*) filter (category_weight <> 0) as weighted_count,
        count(pass_mark) as mark_count,
        exact_sum(if(category_base <> 0, weight_share, null)) as weight,
    from criteria
    group by category
),

final as (
    select
        totals.*,
        categories.parent,
    from totals
    left join categories on totals.category = categories.category
)

select * from final
