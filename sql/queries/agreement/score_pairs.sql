-- score_pairs: one row per case_id, sample_index and pair of models of the run $run_id, in order: the overall score of
-- the second minus that of the first, -1..1. shared: the cluster or case.
with scored as (
    select
        case_id,
        sample_index,
        coalesce('cluster ' || cluster, 'case ' || case_id) as shared,
        model || coalesce(' @ ' || checkpoint, '') as model,
        score,
    from output_scores
    where run_id = $run_id and score is not null
    qualify count(*) over (partition by case_id, sample_index, model, checkpoint) = 1
),

final as (
    select a.model as model_a, b.model as model_b, a.shared, b.score - a.score as difference
    from scored as a
    inner join scored as b
        on a.case_id = b.case_id
        and a.sample_index is not distinct from b.sample_index
        and a.model < b.model
    order by model_a, model_b, a.shared, difference
)

select * from final
