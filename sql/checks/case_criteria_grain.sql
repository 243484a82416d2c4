-- No output has a per-case criterion twice.
-- severity: error
-- empty without: source_case_criteria
with criteria as (select * from stg_case_criteria),

final as (
    select
        output_id,
        criterion_id,
        count(*) as row_count,
    from criteria
    group by output_id, criterion_id
    having count(*) > 1
)

select * from final
