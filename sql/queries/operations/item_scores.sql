-- item_scores: one row per kind (case or criterion), item and model with its checkpoint: the mean score, 0..1, in the
-- last published run of that model of a suite or rubric. $suite: name of the suite, or null; $rubric_id: the rubric, or
-- null. Items without a score are not there.
with of_suite as (
    select run_id, version
    from runs
    where
        status = 'published'
        and stopped_at is null
        and ($suite is null or (settings::json ->> 'suite') = $suite)
        and ($rubric_id is null or rubric_id = $rubric_id)
),

last_runs as (
    select scores.model, scores.checkpoint, max_by(scores.run_id, of_suite.version) as run_id
    from run_scores as scores
    inner join of_suite on scores.run_id = of_suite.run_id
    group by scores.model, scores.checkpoint
),

cases as (
    select 'case' as kind, scores.case_id as item, scores.model, scores.checkpoint, avg(scores.score) as score
    from output_scores as scores
    inner join last_runs
        on scores.run_id = last_runs.run_id
        and scores.model = last_runs.model
        and scores.checkpoint is not distinct from last_runs.checkpoint
    where scores.score is not null
    group by scores.case_id, scores.model, scores.checkpoint
),

criteria_means as (
    select 'criterion' as kind, scores.criterion_id as item, scores.model, scores.checkpoint, scores.mean as score
    from criterion_scores as scores
    inner join last_runs
        on scores.run_id = last_runs.run_id
        and scores.model = last_runs.model
        and scores.checkpoint is not distinct from last_runs.checkpoint
    where scores.mean is not null and coalesce(scores.weight, 0) >= 0
),

final as (
    from cases
    union all
    from criteria_means
    order by kind, item, model, checkpoint
)

select * from final
