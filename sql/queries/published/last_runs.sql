-- last_runs: one row per rubric_id: its last published run, newest first. cost_usd is in US dollars.
with final as (
    select
        run_id,
        rubric_id,
        rubric_version,
        judge,
        dataset,
        trigger,
        created_at,
        finished_at,
        version,
        output_count,
        cost_usd,
    from runs
    where status = 'published'
    qualify row_number() over (partition by rubric_id order by version desc) = 1
    order by version desc
)

select * from final
