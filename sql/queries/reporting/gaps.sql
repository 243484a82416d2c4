-- gaps: one row per criterion_id, model, checkpoint, reason of the verdicts without a score of the run $run_id. reason
-- is cut at its first colon: the rest differs from output to output. Outputs that a criterion does not apply to, by its
-- condition, are no gaps.
with unscored as (
    select output_id, criterion_id, split_part(coalesce(reason, 'no reason'), ':', 1) as reason
    from verdicts
    where
        run_id = $run_id
        and status <> 'scored'
        and not starts_with(coalesce(reason, ''), 'not_applicable: condition not met')
),

outputs as (select output_id, model, checkpoint from output_scores where run_id = $run_id),

final as (
    select unscored.criterion_id, outputs.model, outputs.checkpoint, unscored.reason, count(*) as unscored_count,
    from unscored
    inner join outputs on unscored.output_id = outputs.output_id
    group by unscored.criterion_id, outputs.model, outputs.checkpoint, unscored.reason
)

select * from final
