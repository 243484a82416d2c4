-- site_scores: one row per run, model, checkpoint of all rubrics, by rubric, model and run. Scores are 0..1.
-- changed: what keeps the mean from being compared with the previous one: the rubric, the judge, or a run that stopped
-- early; null if nothing does. weakest_id, weakest_mean: the weighted criterion with the lowest mean, shown beside the
-- overall mean, which would hide it.
with weakest as (
    select
        run_id,
        model,
        checkpoint,
        arg_min(struct_pack(criterion_id, mean), struct_pack(mean, criterion_id)) as weakest,
    from criterion_scores
    where weight > 0
    group by run_id, model, checkpoint
),

final as (
    select
        scores.rubric_id,
        scores.model,
        scores.checkpoint,
        scores.run_id,
        scores.version,
        scores.mean,
        scores.ci_low,
        scores.ci_high,
        scores.change,
        case
            when not scores.is_same_rubric
                then 'rubric ' || before.rubric_version || ' → ' || scores.rubric_version
            when not scores.is_same_judge then 'another judge'
            when coalesce(scores.stopped_at, before.stopped_at) is not null then 'a run that stopped early'
        end as changed,
        scores.rubric_version,
        scores.judge,
        scores.stopped_at,
        weakest.weakest.criterion_id as weakest_id,
        weakest.weakest.mean as weakest_mean,
    from score_history as scores
    left join runs as before on scores.previous_run_id = before.run_id
    left join weakest
        on scores.run_id = weakest.run_id
        and scores.model = weakest.model
        and scores.checkpoint is not distinct from weakest.checkpoint
    order by
        scores.rubric_id,
        scores.model,
        scores.version,
        coalesce(try_cast(regexp_extract(scores.checkpoint, '(\d+)$', 1) as bigint), -1),
        scores.checkpoint
)

select * from final
