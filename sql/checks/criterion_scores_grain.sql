-- criterion_scores has one row per run_id, model, checkpoint, criterion_id.
-- severity: error
with mart as (select * from criterion_scores),

final as (
    select
        run_id,
        model,
        checkpoint,
        criterion_id,
        count(*) as row_count,
    from mart
    group by run_id, model, checkpoint, criterion_id
    having count(*) > 1
)

select * from final
