-- complete_scores: one row per verdict of the outputs of the model $model, $checkpoint in the run $run_id that have an
-- overall score, in order. method: of the verdict; score: 0..1. shared: the output's cluster or case.
with complete as (
    select output_id, coalesce('cluster ' || cluster, 'case ' || case_id) as shared
    from output_scores
    where
        run_id = $run_id
        and model = $model
        and checkpoint is not distinct from $checkpoint
        and score is not null
),

final as (
    select verdicts.criterion_id, verdicts.output_id, verdicts.method, verdicts.score, complete.shared
    from verdicts
    inner join complete on verdicts.output_id = complete.output_id
    where verdicts.run_id = $run_id
    order by verdicts.criterion_id, verdicts.output_id
)

select * from final
