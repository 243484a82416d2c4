-- agent_runs: one row per output of the run $run_id that has the steps of an agent. cost_usd: of its steps, null if no
-- step names one; is_passed: null where nothing is required or scores are missing. shared: the cluster or case.
with spent as (
    select
        output_id,
        list_sum(list_transform(steps, lambda step: step.cost_usd)) as cost_usd,
    from outputs
    where len(steps) > 0 and output_id in (select output_id from output_scores where run_id = $run_id)
),

final as (
    select
        scores.model,
        scores.checkpoint,
        spent.cost_usd,
        scores.is_passed,
        coalesce('cluster ' || scores.cluster, 'case ' || scores.case_id) as shared,
    from output_scores as scores
    inner join spent on scores.output_id = spent.output_id
    where scores.run_id = $run_id
    order by scores.output_id
)

select * from final
