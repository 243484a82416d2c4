-- At least 95 in 100 judgments are scored.
-- severity: warning
with rows as (select * from judgments),

final as (
    select
        judgment_id,
        criterion_id,
        status,
    from rows
    where status <> 'scored'
    qualify count(*) over () > 0.05 * (select count(*) from rows)
)

select * from final
