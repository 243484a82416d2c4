-- int_categories_summed: one row per category of the rubric, and one per output_number, category of per-case criteria,
-- with the totals of its criteria. weight is the sum of the positive weight shares of the rubric's criteria, or of all
-- where none is positive, null if all are gates; parent is the enclosing category; output_number is null for a category
-- of the rubric.
-- materialized: table
with criteria as (select * from int_category_criteria_weighted),

categories as (select * from source_categories),

totals as (
    select
        category,
        category_number,
        output_number,
        group_number,
        weight_rank,
        exact_sum(category_base) as base_weight,
        exact_sum(least(category_weight, 0.0)) as penalty_weight,
        count(*) filter (category_weight <> 0) as weighted_count,
        count(pass_mark) as mark_count,
        exact_sum(if(category_base <> 0 or weight_rank = 1, weight_share, null)) as weight,
    from criteria
    group by category, category_number, output_number, group_number, weight_rank
),

final as (
    select
        totals.*,
        categories.parent,
    from totals
    left join categories on totals.category = categories.category
)

select * from final
