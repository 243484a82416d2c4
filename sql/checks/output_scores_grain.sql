-- output_scores has one row per run_id, output_id.
-- severity: error
with mart as (select * from output_scores),

final as (
    select
        run_id,
        output_id,
        count(*) as row_count,
    from mart
    group by run_id, output_id
    having count(*) > 1
)

select * from final
