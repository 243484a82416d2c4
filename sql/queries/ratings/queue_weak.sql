-- queue_weak: one row per output_id of the run $run_id that lies in a weak spot, a slice of the metadata with a worse
-- mean on a criterion than the other outputs, and lost points on that criterion. loss: the estimated distance of the
-- slice's mean from that of the rest, 0..1; the largest of the output's spots; the largest first, then the lowest
-- score. Slices that chance may explain are included, last.
with spots as (select * from weak_spots where run_id = $run_id),

entries as (
    select
        scores.output_id,
        scores.model,
        scores.checkpoint,
        unnest(json_keys(outputs.metadata)) as slice_key,
        unnest(json_extract(outputs.metadata, '$.*')) ->> '$' as slice_value,
    from output_scores as scores
    inner join outputs on scores.output_id = outputs.output_id
    where scores.run_id = $run_id and outputs.metadata is not null
),

final as (
    select entries.output_id, max(abs(coalesce(spots.shrunk_lift, spots.lift))) as loss, min(verdicts.score) as score
    from spots
    inner join entries
        on spots.slice_key = entries.slice_key
        and spots.slice_value = entries.slice_value
        and spots.model = entries.model
        and spots.checkpoint is not distinct from entries.checkpoint
    inner join verdicts
        on spots.run_id = verdicts.run_id
        and spots.criterion_id = verdicts.criterion_id
        and entries.output_id = verdicts.output_id
    where verdicts.score < 1
    group by entries.output_id
    order by loss desc, score, entries.output_id
)

select * from final
