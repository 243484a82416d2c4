-- outcome_summary: one row per name and grain of the outcomes, with the number and range of the values.
with final as (
    select
        name, grain,
        count(*) as value_count,
        min(value) as least,
        max(value) as most,
        any_value(is_higher_better) as is_higher_better,
        string_agg(distinct source, ', ' order by source) as source,
    from outcomes
    group by name, grain
    order by name, grain
)

select * from final
