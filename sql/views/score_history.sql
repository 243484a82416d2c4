-- score_history: one row per run_id, model, checkpoint of the published runs, with the mean and the previous one: from
-- the newest earlier run of the rubric_id with the same model and checkpoint, else with another checkpoint of the
-- model, by the highest step (the number at the end of its name).
with published as (
    select
        runs.version, runs.finished_at, runs.rubric_id, runs.rubric_version, runs.rubric_digest, runs.dataset,
        runs.dataset_digest, runs.judge, runs.judge_epoch, runs.stopped_at, scores.*,
        -- a recording does not name whose replies it holds
        regexp_replace(runs.judge, '^replay:.*', 'replay') as asked,
        coalesce(try_cast(regexp_extract(scores.checkpoint, '(\d+)$', 1) as bigint), -1) as step,
    from run_scores as scores
    inner join runs on scores.run_id = runs.run_id
    where runs.status = 'published'
),

followed as (
    select
        *,
        struct_pack(run_id, checkpoint, mean, rubric_digest, dataset_digest, asked, judge_epoch) as this,
        coalesce(
            max_by(this, version) over same_checkpoint,
            max_by(this, struct_pack(version, step, checkpoint)) over same_model
        ) as before,
    from published
    window
        same_checkpoint as (
            partition by rubric_id, model, checkpoint order by version range between unbounded preceding and 1 preceding
        ),
        same_model as (
            partition by rubric_id, model order by version range between unbounded preceding and 1 preceding
        )
),

final as (
    select
        model,
        checkpoint,
        rubric_id,
        version,
        run_id,
        finished_at,
        rubric_version,
        dataset,
        judge,
        judge_epoch,
        stopped_at,
        output_count,
        n,
        mean,
        ci_low,
        ci_high,
        pass_rate,
        coverage_rate,
        cost_usd,
        before.run_id as previous_run_id,
        before.checkpoint as previous_checkpoint,
        before.mean as previous_mean,
        mean - before.mean as change,
        before.rubric_digest = rubric_digest as is_same_rubric,
        case when before.run_id is not null then
            before.asked is not distinct from asked
            and coalesce(before.judge_epoch, judge_epoch) is not distinct from coalesce(judge_epoch, before.judge_epoch)
        end as is_same_judge,
        before.dataset_digest = dataset_digest as is_same_dataset,
    from followed
)

select * from final
