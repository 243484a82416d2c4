-- stg_category_weights: one row per category, criterion_id in the category or in one below it. weight is the
-- criterion's weight in the category's score, 0 for a gate.
with weights as (select * from source_category_weights),

final as (
    select
        category,
        criterion_id,
        weight,
    from weights
)

select * from final
