-- scores_by_run: one row per run, model, checkpoint of the rubric $rubric_id (null: of all), the last $most_runs of
-- each model and checkpoint (null: all), by rubric, model, whether it is a checkpoint, and run. Scores are 0..1.
-- changed: what keeps the mean from being compared with the previous one: the rubric, the judge, the cases, a run that
-- stopped early, or a checkpoint beside a run of none; null if nothing does. cases: a hash of the cases, their ids
-- with what was asked, so that equal ids of other prompts are other cases. weakest: the weighted criterion with the
-- lowest mean (criterion_id, mean), shown beside the overall mean, which would hide it.
with history as (
    select *
    from score_history
    where $rubric_id is null or rubric_id = $rubric_id
    qualify
        $most_runs is null
        or row_number() over (partition by rubric_id, model, checkpoint order by version desc) <= $most_runs
),

cases as (
    select
        scores.run_id,
        scores.model,
        scores.checkpoint,
        bit_xor(distinct hash(scores.case_id, outputs.prompt, outputs.reference, outputs.context)) as cases,
    from output_scores as scores
    left join outputs on scores.output_id = outputs.output_id
    where scores.run_id in (select run_id from history)
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
        (
            select arg_min(struct_pack(criterion_id, mean), struct_pack(mean, criterion_id))
            from criterion_scores as criteria
            where
                criteria.weight > 0
                and (criteria.run_id, criteria.model) = (scores.run_id, scores.model)
                and criteria.checkpoint is not distinct from scores.checkpoint
        ) as weakest,
    from history as scores
    left join runs as before on scores.previous_run_id = before.run_id
    left join cases
        on (scores.run_id, scores.model) = (cases.run_id, cases.model)
        and scores.checkpoint is not distinct from cases.checkpoint
    left join cases as cases_before
        on (scores.previous_run_id, scores.model) = (cases_before.run_id, cases_before.model)
        and scores.previous_checkpoint is not distinct from cases_before.checkpoint
    order by
        scores.rubric_id,
        scores.model,
        scores.checkpoint is not null,
        scores.version,
        coalesce(try_cast(regexp_extract(scores.checkpoint, '(\d+)$', 1) as bigint), -1),
        scores.checkpoint
)

select * from final
