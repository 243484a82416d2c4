-- stg_categories: one row per category of the rubric. parent is the enclosing category, null at the top.
with categories as (select * from source_categories),

final as (
    select
        category,
        parent,
    from categories
)

select * from final
