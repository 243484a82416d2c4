-- example_steps: the steps of the outputs $output_ids, in order; of a long trajectory the first and last $most_steps,
-- of each text the first $most_characters characters. step_count, error_count: of all.
with numbered as (
    select
        output_id,
        len(steps) as step_count,
        len(list_filter(steps, lambda step: step.error is not null)) as error_count,
        unnest(steps) as step,
        generate_subscripts(steps, 1) - 1 as step_index,
    from outputs
    where list_contains($output_ids, output_id)
),

final as (
    select
        output_id,
        step_count,
        error_count,
        step_index,
        step.kind,
        step.name,
        step.agent,
        left(step.input, $most_characters) as input,
        left(step.output, $most_characters) as output,
        left(step.error, $most_characters) as error,
        step.latency_ms,
        step.tokens,
        step.cost_usd,
    from numbered
    where step_index < $most_steps or step_index >= step_count - $most_steps
    order by output_id, step_index
)

select * from final
