-- preference_rates: one row per run_id, model, checkpoint, criterion_id, other_model, other_checkpoint: how often a
-- judge found the model's answer better than, as good as or worse than the other one. position_flip_rate (0..1): share
-- of the pairs asked in both orders where the order decided, which are ties.
with final as (
    select
        pairs.run_id,
        outputs.model,
        outputs.checkpoint,
        pairs.criterion_id,
        others.model as other_model,
        others.checkpoint as other_checkpoint,
        count(*) as pair_count,
        count(*) filter (pairs.level_id = 'better') as win_count,
        count(*) filter (pairs.level_id = 'same') as tie_count,
        count(*) filter (pairs.level_id = 'worse') as loss_count,
        count(pairs.shown_first || pairs.shown_second) as asked_count,
        avg((pairs.shown_first <> pairs.shown_second)::integer) as position_flip_rate,
    from judged_preferences as pairs
    inner join outputs on pairs.output_id = outputs.output_id
    inner join outputs as others on pairs.other_output_id = others.output_id
    group by all
)

select * from final
