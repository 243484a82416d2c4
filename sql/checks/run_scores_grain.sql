-- run_scores has one row per run_id, model, checkpoint.
-- severity: error
with mart as (select * from run_scores),

final as (
    select
        run_id,
        model,
        checkpoint,
        count(*) as row_count,
    from mart
    group by run_id, model, checkpoint
    having count(*) > 1
)

select * from final
