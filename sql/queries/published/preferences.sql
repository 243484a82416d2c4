-- preferences: one row per row of preference_rates of the run $run_id, in order, with win_rate, 0..1, in which a tie is
-- half a win, and its 95% interval over cases. A model that was only compared with itself is left out.
with final as (
    select
        rates.* exclude (run_id),
        scores.mean as win_rate,
        scores.ci_low,
        scores.ci_high,
    from preference_rates as rates
    left join criterion_scores as scores
        on rates.run_id = scores.run_id
        and rates.model = scores.model
        and rates.checkpoint is not distinct from scores.checkpoint
        and rates.criterion_id = scores.criterion_id
    where
        rates.run_id = $run_id
        and (
            rates.asked_count > 0
            or (rates.model, rates.checkpoint) is distinct from (rates.other_model, rates.other_checkpoint)
        )
    order by
        rates.criterion_id, rates.model, rates.checkpoint nulls first, rates.other_model,
        rates.other_checkpoint nulls first
)

select * from final
