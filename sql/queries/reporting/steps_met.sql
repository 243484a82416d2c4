-- steps_met: one row per model, checkpoint, step of the run $run_id: the last step that the n scored outputs meet. Step
-- 0 is the score $low and each further step is $step above; a float sum that is off by 1e-9 still meets it, as in
-- is_below.
with scores as (select * from output_scores where run_id = $run_id and score is not null),

final as (
    select
        model,
        checkpoint,
        floor((score - $low + 1e-9) / $step)::bigint as step,
        count(*) as n,
    from scores
    group by all
)

select * from final
