-- judged_levels: one row per output_id of the relation chosen_outputs, criterion_id that a judge scored in the run
-- $run_id: its level (null where it gives bare scores), score (0..1) and rationale.
with final as (
    select verdicts.output_id, verdicts.criterion_id, verdicts.level_id, verdicts.score, verdicts.rationale
    from verdicts
    inner join chosen_outputs on verdicts.output_id = chosen_outputs.output_id
    where verdicts.run_id = $run_id and verdicts.status = 'scored' and verdicts.method <> 'ratings'
    order by verdicts.output_id, verdicts.criterion_id
)

select * from final
