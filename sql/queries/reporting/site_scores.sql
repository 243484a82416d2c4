-- site_scores: one row per run, model, checkpoint of all rubrics, by rubric, model, whether it is a checkpoint, and
-- run. Scores are 0..1. changed: what keeps the mean from being compared with the previous one: the rubric, the judge,
-- the cases, a run that stopped early, or a checkpoint beside a run of none; null if nothing does. cases: a hash of the
-- cases, their ids with what was asked, so that equal ids of other prompts are other cases. weakest_id, weakest_mean:
-- the weighted criterion with the lowest mean, shown beside the overall mean, which would hide it.
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

cases as (
    select
        scores.run_id,
        scores.model,
        scores.checkpoint,
        bit_xor(distinct hash(scores.case_id, outputs.prompt, outputs.reference, outputs.context)) as cases,
    from output_scores as scores
    left join outputs on scores.output_id = outputs.output_id
    group by scores.run_id, scores.model, scores.checkpoint
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
            when (scores.checkpoint is null) <> (scores.previous_checkpoint is null)
                and scores.previous_run_id is not null then 'a checkpoint'
            when cases.cases <> cases_before.cases then 'other cases'
        end as changed,
        scores.rubric_version,
        scores.judge,
        scores.judge_epoch,
        scores.stopped_at,
        cases.cases,
        weakest.weakest.criterion_id as weakest_id,
        weakest.weakest.mean as weakest_mean,
    from score_history as scores
    left join runs as before on scores.previous_run_id = before.run_id
    left join cases
        on scores.run_id = cases.run_id
        and scores.model = cases.model
        and scores.checkpoint is not distinct from cases.checkpoint
    left join cases as cases_before
        on scores.previous_run_id = cases_before.run_id
        and scores.model = cases_before.model
        and scores.previous_checkpoint is not distinct from cases_before.checkpoint
    left join weakest
        on scores.run_id = weakest.run_id
        and scores.model = weakest.model
        and scores.checkpoint is not distinct from weakest.checkpoint
    order by
        scores.rubric_id,
        scores.model,
        scores.checkpoint is not null,
        scores.version,
        coalesce(try_cast(regexp_extract(scores.checkpoint, '(\d+)$', 1) as bigint), -1),
        scores.checkpoint
)

select * from final
