-- earlier_runs: one row per run_id, model, checkpoint of the published runs that a baseline is chosen from: runs of the
-- rubric $rubric_id that were evaluated, other than the run $run_id. $suite, $night: of a suite's run, the runs of the
-- same suite in an earlier night; $suite is null for other runs. $model, $checkpoint, $dataset_digest: of a
-- checkpoint's run, other checkpoints of the same model on other outputs that were decided about; $model is null for
-- other runs. Runs that stopped early are left out, as they lack cases.
with earlier as (
    select
        runs.run_id,
        runs.version,
        runs.dataset_digest,
        runs.dataset,
        runs.rubric_digest,
        runs.judge,
        scores.mean,
        scores.model,
        scores.checkpoint,
        case when $suite is not null then runs.settings::json ->> 'night' end as night,
        count(*) over (partition by runs.run_id, scores.model) as checkpoint_count,
    from runs
    inner join run_scores as scores on runs.run_id = scores.run_id
    where
        runs.rubric_id = $rubric_id
        and runs.status = 'published'
        and runs.run_id <> $run_id
        and runs.stopped_at is null
        and coalesce(runs.trigger, '') not in ('rescore', 'review')
        and (
            $suite is null
            or ((runs.settings::json ->> 'suite') = $suite and (runs.settings::json ->> 'night') < $night)
        )
),

final as (
    select *
    from earlier
    where
        $model is null
        or (
            model = $model
            and checkpoint is distinct from $checkpoint
            and dataset_digest <> $dataset_digest
            and run_id in (select run_id from checkpoints where model = $model and rubric_id = $rubric_id)
        )
)

select * from final
