-- At most 1 in 100 outputs is empty.
-- severity: warning
-- only with: output
with rows as (select * from outputs),

final as (
    select
        output_id,
        model,
    from rows
    where output = ''
    qualify count(*) over () > 0.01 * (select count(*) from rows)
)

select * from final
