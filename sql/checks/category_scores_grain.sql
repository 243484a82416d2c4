-- category_scores has one row per run_id, model, checkpoint, category.
-- severity: error
-- empty without: category_scores
with mart as (select * from category_scores),

final as (
    select
        run_id,
        model,
        checkpoint,
        category,
        count(*) as row_count,
    from mart
    group by run_id, model, checkpoint, category
    having count(*) > 1
)

select * from final
