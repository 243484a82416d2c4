-- int_categories: one row per category of the rubric. weight is the sum of its criteria's weight shares, null where all
-- are gates; parent is the category around it.
-- materialized: table
with criteria as (select * from int_category_criteria),

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
