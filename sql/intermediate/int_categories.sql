-- int_categories: one row per category. weight is the sum of its criteria's weight shares, null where all are gates.
with criteria as (select * from int_criteria),

final as (
    select
        category,
        sum(category_base) as base_weight,
        count(*) filter (category_weight <> 0) as weighted_count,
        count(pass_mark) as mark_count,
        sum(weight_share) filter (category_base <> 0) as weight,
    from criteria
    group by category
)

select * from final
