-- steps_met: one row per model, checkpoint, step of the run $1: the last step met by the n scored outputs. Step 0 is
-- the score $2, each further step is $3 higher. A float sum that is off by 1e-9 still meets the step, as in is_below.
with scores as (select * from output_scores where run_id = $1 and score is not null),

final as (
    select
        model,
        checkpoint,
        floor((score - $2 + 1e-9) / $3)::bigint as step,
        count(*) as n,
    from scores
    group by all
)

select * from final
