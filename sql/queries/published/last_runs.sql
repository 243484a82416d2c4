-- last_runs: one row per rubric_id: its last published run, newest first. A review counts only where the rubric has no
-- other run. cost_usd is in US dollars. stopped: the outcome of a stopped run in words; null for others.
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
        case when stopped_at is not null then settings::json -> 'stopping' ->> 'brief' end as stopped,
        cost_usd,
        settings ->> 'baseline_run_id' as baseline_run_id,
    from runs
    where status = 'published'
    qualify row_number() over (
        partition by rubric_id order by trigger is not distinct from 'review', version desc
    ) = 1
    order by version desc
)

select * from final
