-- cost_history: one row per run_id of the published runs: requests, costs and savings from the ledger.
with costs as (
    select
        run_id,
        sum(request_count)::bigint as request_count,
        sum(replayed_count)::bigint as replayed_count,
        sum(prompt_tokens)::bigint as prompt_tokens,
        sum(cached_tokens)::bigint as cached_tokens,
        sum(completion_tokens)::bigint as completion_tokens,
        case when count(*) = count(saved_usd) then sum(saved_usd) end as saved_usd,
        sum(wall_s) as wall_s,
    from stage_costs
    group by run_id
),

final as (
    select
        runs.run_id,
        runs.version,
        runs.finished_at,
        runs.rubric_id,
        runs.judge,
        runs.trigger,
        runs.output_count,
        costs.request_count,
        costs.replayed_count,
        costs.prompt_tokens,
        costs.cached_tokens,
        costs.completion_tokens,
        runs.cost_usd,
        costs.saved_usd,
        runs.cost_usd / nullif(runs.output_count, 0) as usd_per_output,
        costs.wall_s,
    from runs
    left join costs on runs.run_id = costs.run_id
    where runs.status = 'published'
)

select * from final
