-- judge_gaps: one row per run_id, model, checkpoint, reference_judge: the mean score (0..1) by the run's judge minus
-- the one by another judge, who judged outputs of the run with the same rubric: a share drawn at random, or all. n
-- counts cases; the bounds are 95% intervals by Student's t, null below 5 cases. A filter on run_id reads those alone.
with judged as (
    select
        scores.run_id, scores.output_id, scores.case_id, scores.model, scores.checkpoint, scores.score,
        runs.rubric_digest, runs.judge, runs.version,
    from output_scores as scores
    inner join runs on scores.run_id = runs.run_id
    where runs.status = 'published' and scores.score is not null and runs.judge is not null
),

paired as (
    select
        own.run_id, own.case_id, own.model, own.checkpoint, own.judge, own.score,
        reference.judge as reference_judge,
        max_by(reference.run_id, reference.version) as reference_run_id,
        max_by(reference.score, reference.version) as reference_score,
    from judged as own
    inner join judged as reference
        on own.output_id = reference.output_id
        and own.rubric_digest = reference.rubric_digest
        and own.judge <> reference.judge
    group by all
),

by_case as (
    select
        run_id, model, checkpoint, judge, reference_judge, case_id,
        max(reference_run_id) as reference_run_id,
        avg(score) as mean,
        avg(reference_score) as reference_mean,
    from paired
    group by run_id, model, checkpoint, judge, reference_judge, case_id
),

summed as (
    select
        run_id, model, checkpoint, judge, reference_judge,
        max(reference_run_id) as reference_run_id,
        count(*) as n,
        avg(mean) as mean,
        avg(reference_mean) as reference_mean,
        avg(mean - reference_mean) as gap,
        -- The quantile by its expansion in 1 / (n - 1) (Abramowitz and Stegun 26.7.5): 0.003 too low for 5 cases.
        case when n >= 5 then
            stddev_samp(mean - reference_mean) / sqrt(n)
            * (1.959964 + 2.372271 / (n - 1) + 2.822499 / (n - 1)**2 + 2.555847 / (n - 1)**3)
        end as margin,
    from by_case
    group by run_id, model, checkpoint, judge, reference_judge
),

final as (
    select
        * exclude (margin),
        gap - margin as ci_low,
        gap + margin as ci_high,
    from summed
)

select * from final
