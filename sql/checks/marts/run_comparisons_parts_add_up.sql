-- The parts of a pair of models add up to the difference of their overall scores.
-- severity: warning
-- empty without: run_comparisons
with compared as (select * from run_comparisons),

final as (
    select
        baseline_model,
        baseline_checkpoint,
        model,
        checkpoint,
        sum(part) as parts,
        max(mean_diff) filter (scope = 'overall') as mean_diff,
    from compared
    group by baseline_model, baseline_checkpoint, model, checkpoint
    having abs(sum(part) - max(mean_diff) filter (scope = 'overall')) > 1e-9
)

select * from final
