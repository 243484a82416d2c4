-- rewarded_outputs: one row per output of the run $run_id, by case, model, checkpoint and sample: its texts, whether it
-- passed, the scores (0..1, null: unscored) of its criteria by id, its own criteria as JSON, and in unmet the criteria
-- that do not apply to it by their condition.
with scored as (
    select
        output_id,
        list(criterion_id order by criterion_id) as criterion_ids,
        list(score order by criterion_id) as scores,
        list(criterion_id order by criterion_id) filter (
            starts_with(coalesce(reason, ''), 'not_applicable: condition not met')
        ) as unmet,
    from verdicts
    where run_id = $run_id
    group by output_id
),

owned as (
    select
        output_id,
        list(body order by criterion_id) as own,
    from case_criteria
    where run_id = $run_id
    group by output_id
),

final as (
    select
        outputs.output_id,
        outputs.case_id,
        outputs.model,
        outputs.checkpoint,
        outputs.sample_index,
        outputs.prompt,
        outputs.output,
        outputs.reference,
        outputs.context,
        outputs.metadata,
        output_scores.is_passed,
        scored.criterion_ids,
        scored.scores,
        scored.unmet,
        owned.own,
    from output_scores
    inner join outputs on output_scores.output_id = outputs.output_id
    left join scored on output_scores.output_id = scored.output_id
    left join owned on output_scores.output_id = owned.output_id
    where output_scores.run_id = $run_id
    order by outputs.case_id, outputs.model, outputs.checkpoint, outputs.sample_index, outputs.output_id
)

select * from final
