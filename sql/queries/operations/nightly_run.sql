-- nightly_run: at most one row: the last nightly run over $dataset, of the id $run_id or, if that is null, active
-- since $began_at. cost_usd is in US dollars.
with final as (
    select run_id, status, cost_usd
    from runs
    where
        trigger = 'nightly'
        and dataset = $dataset
        and (
            run_id = $run_id
            or ($run_id is null and greatest(created_at, coalesce(finished_at, created_at)) >= $began_at)
        )
    order by coalesce(finished_at, created_at) desc
    limit 1
)

select * from final
