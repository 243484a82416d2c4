-- failing_outputs: one row per output of the run $run_id that does not pass, the lowest score (0..1) first; with a
-- $criterion_id, one per output that this criterion scores below 1, by its score; at most $row_count. verdicts: the
-- lowest five, as JSON.
with judged as (
    select
        output_id,
        min(score) filter (where criterion_id = $criterion_id) as criterion_score,
        to_json(
            list({
                'criterion_id': criterion_id,
                'score': score,
                'level_id': level_id,
                'why': coalesce(rationale, evidence, reason),
            } order by score)[:5]
        ) as verdicts,
    from verdicts
    where run_id = $run_id
    group by output_id
),

final as (
    select
        output_scores.case_id,
        output_scores.model,
        output_scores.checkpoint,
        output_scores.sample_index,
        output_scores.score,
        output_scores.failed_gates,
        judged.verdicts,
        outputs.prompt,
        outputs.output,
    from output_scores
    inner join outputs on output_scores.output_id = outputs.output_id
    left join judged on output_scores.output_id = judged.output_id
    where output_scores.run_id = $run_id
        and case when $criterion_id is null then output_scores.is_passed = false else judged.criterion_score < 1 end
    order by judged.criterion_score, output_scores.score, outputs.output_id
    limit $row_count
)

select * from final
