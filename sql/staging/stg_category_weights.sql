-- stg_category_weights: one row per category, criterion_id in it or in a category within it. weight is what it weighs
-- in the category's score, 0 for a gate.
with weights as (select * from source_category_weights),

final as (
    select
        category,
        criterion_id,
        weight,
    from weights
)

select * from final
