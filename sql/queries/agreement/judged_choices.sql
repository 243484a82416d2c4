-- judged_choices: one row per criterion_id, output of the run $run_id that a judge compared with another model's, in
-- order; of all criteria if $criterion_id is null. A is the other model, B the output's. wins: 1 where B was better,
-- 0.5 for a tie, 0 where A was. longer: log2 of the length of B over that of A. shared: the cluster or case.
with final as (
    select
        pairs.criterion_id,
        a.model as model_a,
        a.checkpoint as checkpoint_a,
        b.model as model_b,
        b.checkpoint as checkpoint_b,
        case pairs.level_id when 'better' then 1.0 when 'same' then 0.5 when 'worse' then 0.0 end as wins,
        log2(greatest(length(b.output), 1)) - log2(greatest(length(a.output), 1)) as longer,
        coalesce('cluster ' || b.cluster, 'case ' || b.case_id) as shared,
    from judged_preferences as pairs
    inner join outputs as a on pairs.other_output_id = a.output_id
    inner join outputs as b on pairs.output_id = b.output_id
    where
        pairs.run_id = $run_id
        and ($criterion_id is null or pairs.criterion_id = $criterion_id)
        and pairs.level_id is not null
        and (a.model, coalesce(a.checkpoint, '')) <> (b.model, coalesce(b.checkpoint, ''))
    order by pairs.criterion_id, model_a, checkpoint_a, model_b, checkpoint_b, pairs.other_output_id, pairs.output_id
)

select * from final
