-- same_outputs: one row per place of compared_outputs whose two outputs, of different ids, are the same answer to the
-- same prompt: equal prompt, context, output and steps, whatever their ids, times and costs. Outputs of other scores
-- need not be read.
with pairs as (
    select
        place,
        max(output_id) filter (side = 'a') as output_a,
        max(output_id) filter (side = 'b') as output_b,
    from compared_outputs
    where has_partner
    group by place
    having
        output_a <> output_b
        and max(score) filter (side = 'a') is not distinct from max(score) filter (side = 'b')
),

digests as (
    select distinct
        output_id,
        md5(to_json({
            'prompt': prompt,
            'context': context,
            'output': output,
            'steps': list_transform(steps, lambda step: {
                'parent': step.parent_index,
                'agent': step.agent,
                'kind': step.kind,
                'name': step.name,
                'input': step.input,
                'output': step.output,
                'error': step.error,
            }),
        })::varchar) as digest,
    from outputs
    where
        output is not null
        and output_id in (select unnest([output_a, output_b]) from pairs)
),

final as (
    select pairs.place
    from pairs
    inner join digests as of_a on pairs.output_a = of_a.output_id
    inner join digests as of_b on pairs.output_b = of_b.output_id
    where of_a.digest = of_b.digest
)

select * from final
