-- filtered_outputs: one row per output_id of the run $run_id that passes all conditions. value: its score on the
-- criterion $criterion_id, 0..1, or its overall score where that is null; level_id: its level on that criterion.
-- is_failed: a gate failed. before: the value of its case in the run $baseline_run_id by the same model and sample,
-- null without one. verdicts, baseline: the tables verdicts and output_scores, or no rows where they are not
-- needed; conditions: on scores, judged and before.
with judged as (
    select output_id, level_id, score from {verdicts} where run_id = $run_id and criterion_id = $criterion_id
),

judged_before as (
    select output_id, score from {verdicts} where run_id = $baseline_run_id and criterion_id = $criterion_id
),

before as (
    select
        scores.case_id,
        scores.model,
        scores.checkpoint,
        scores.sample_index,
        any_value(if($criterion_id is null, scores.score, judged_before.score)) as value,
    from {baseline} as scores
    left join judged_before on scores.output_id = judged_before.output_id
    where scores.run_id = $baseline_run_id
    group by scores.case_id, scores.model, scores.checkpoint, scores.sample_index
    having count(*) = 1
),

final as (
    select
        scores.output_id,
        scores.case_id,
        scores.model,
        scores.checkpoint,
        scores.sample_index,
        scores.score,
        if($criterion_id is null, scores.score, judged.score) as value,
        judged.level_id,
        len(scores.failed_gates) > 0 as is_failed,
        before.value as before,
    from output_scores as scores
    left join judged on scores.output_id = judged.output_id
    left join before
        on scores.case_id = before.case_id
        and scores.model = before.model
        and scores.checkpoint is not distinct from before.checkpoint
        and scores.sample_index = before.sample_index
    where scores.run_id = $run_id and {conditions}
)

select * from final
