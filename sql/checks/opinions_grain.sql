-- No judge has two opinions of one output and criterion under the same replicate and order of levels.
-- severity: error
-- empty without: source_opinions
with opinions as (select * from stg_opinions),

final as (
    select
        output_id,
        criterion_id,
        judge,
        replicate,
        is_swapped,
        count(*) as opinion_count,
    from opinions
    group by output_id, criterion_id, judge, replicate, is_swapped
    having count(*) > 1
)

select * from final
