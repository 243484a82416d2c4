-- steps: one row per output_id, step_index (from 0): the steps of the outputs that came with a trajectory, in order.
with numbered as (
    select
        output_id,
        unnest(range(len(steps))) as step_index,
        unnest(steps) as step,
    from outputs
    where len(steps) > 0
),

final as (
    select
        output_id,
        step_index,
        step.parent_index,
        step.span_id,
        step.agent,
        step.kind,
        step."name",
        step."input",
        step."output",
        step.error,
        step.started_at,
        step.latency_ms,
        step.tokens,
        step.cost_usd,
    from numbered
)

select * from final
