-- stage_costs has one row per run_id, stage, criterion_id.
-- severity: error
with mart as (select * from stage_costs),

final as (
    select
        run_id,
        stage,
        criterion_id,
        count(*) as row_count,
    from mart
    group by run_id, stage, criterion_id
    having count(*) > 1
)

select * from final
