-- There is an output.
-- severity: error
with counts as (select count(*) as row_count from outputs),

final as (
    select row_count
    from counts
    where row_count = 0
)

select * from final
