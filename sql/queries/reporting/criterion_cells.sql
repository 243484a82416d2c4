-- criterion_cells: one row per output_id, criterion_id (of $criteria) with a score in the run $run_id, of up to
-- $most_count outputs, chosen by the hash of their ids. deviation: the score less the mean of its model and checkpoint.
with chosen as (
    select output_id, model, checkpoint,
        dense_rank() over (order by coalesce('cluster ' || cluster, 'case ' || case_id)) as case_number,
    from output_scores
    where run_id = $run_id
    qualify row_number() over (order by hash(output_id), output_id) <= $most_count
),

final as (
    select
        chosen.output_id,
        chosen.case_number,
        verdicts.criterion_id,
        verdicts.score - avg(verdicts.score) over (
            partition by chosen.model, chosen.checkpoint, verdicts.criterion_id
        ) as deviation,
    from verdicts
    inner join chosen on verdicts.output_id = chosen.output_id
    where verdicts.run_id = $run_id and list_contains($criteria, verdicts.criterion_id) and verdicts.score is not null
    order by chosen.output_id, verdicts.criterion_id
)

select * from final
