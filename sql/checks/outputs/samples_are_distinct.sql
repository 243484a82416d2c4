-- No two outputs have the same case, model, checkpoint and sample_index.
-- severity: warning
with rows as (select * from outputs),

final as (
    select
        case_id,
        model,
        checkpoint,
        sample_index,
        count(*) as row_count,
    from rows
    group by case_id, model, checkpoint, sample_index
    having count(*) > 1
)

select * from final
