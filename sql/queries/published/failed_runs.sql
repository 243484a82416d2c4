-- failed_runs: one row per run that failed since $since, newest first, without a later success: a published run
-- of the same outputs, rubric and judge.
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
        reason,
    from runs as failed
    where
        status = 'failed'
        and coalesce(finished_at, created_at) >= $since
        and not exists (
            from runs as mended
            where
                mended.status = 'published'
                -- Row ids grow with each commit, so a clock that was set back does not change the order of runs.
                and mended.rowid > failed.rowid
                and mended.dataset_digest = failed.dataset_digest
                and mended.rubric_digest = failed.rubric_digest
                and mended.judge is not distinct from failed.judge
        )
    order by failed.rowid desc
)

select * from final
