-- other_runs: at most 10 other published runs of the rubric $rubric_id than $run_id: $baseline_run_id, its baseline,
-- first, then the newest.
with final as (
    select run_id
    from runs
    where rubric_id = $rubric_id and status = 'published' and run_id <> $run_id
    order by run_id = $baseline_run_id desc nulls last, version desc
    limit 10
)

select * from final
