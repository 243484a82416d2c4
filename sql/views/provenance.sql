-- provenance: one row per run_id, output_id, criterion_id with a verdict: where it comes from. The judgment is the one
-- that counted, the earliest scored reply under the verdict's request_key; of several judges, the first judge's.
-- people_score is the decision of an adjudicator, or else the mean of the raters' latest ratings.
with current as (
    select *, source is not distinct from 'adjudication' as is_decision,
    from ratings
    qualify row_number() over (
        partition by output_id, criterion_id, rater, is_decision
        order by rated_at desc nulls last, rowid desc
    ) = 1
),

rated as (
    select
        output_id, criterion_id, count(distinct rater) filter (not is_decision) as rater_count,
        coalesce(arg_max(score, rated_at) filter (is_decision), avg(score) filter (not is_decision)) as people_score,
    from current
    where score is not null
    group by output_id, criterion_id
),

joined as (
    select
        verdicts.run_id, verdicts.output_id, verdicts.criterion_id, verdicts.method, verdicts.status,
        verdicts.level_id, verdicts.score, verdicts.reason, verdicts.evidence, verdicts.rationale,
        verdicts.request_key, verdicts.is_replayed,
        judgments.judgment_id, judgments.run_id as paid_by, judgments.judge as asked_judge, judgments.model_returned,
        judgments.prompt_digest, judgments.reply, judgments.asked_at, judgments.attempts,
        judgments.prompt_tokens, judgments.completion_tokens, judgments.cost_usd,
    from verdicts
    left join judgments
        on verdicts.request_key = judgments.request_key and verdicts.criterion_id = judgments.criterion_id
    qualify row_number() over (
        partition by verdicts.run_id, verdicts.output_id, verdicts.criterion_id
        order by judgments.status = 'scored' desc nulls last, judgments.asked_at, judgments.judgment_id
    ) = 1
),

final as (
    select
        joined.*,
        scores.case_id, scores.model, scores.checkpoint, scores.sample_index, scores.score as output_score,
        scores.unscored_reason as output_unscored_reason,
        outputs.prompt, outputs.output, outputs.reference,
        runs.rubric_id, runs.rubric_version, runs.rubric_digest,
        coalesce(own.description, criteria.description) as description,
        coalesce(own.threshold, criteria.threshold) as threshold,
        coalesce(own.weight, criteria.weight) as weight,
        rated.rater_count, rated.people_score,
        runs.judge, runs.judge_epoch, runs.dataset, runs.dataset_digest, runs.code_version,
        runs.version, runs.finished_at,
    from joined
    left join output_scores as scores on joined.run_id = scores.run_id and joined.output_id = scores.output_id
    left join outputs on joined.output_id = outputs.output_id
    left join case_criteria as own
        on joined.run_id = own.run_id
        and joined.output_id = own.output_id
        and joined.criterion_id = own.criterion_id
    inner join runs on joined.run_id = runs.run_id
    left join criteria
        on runs.rubric_id = criteria.rubric_id
        and runs.rubric_version = criteria.rubric_version
        and joined.criterion_id = criteria.criterion_id
    left join rated on joined.output_id = rated.output_id and joined.criterion_id = rated.criterion_id
)

select * from final
