-- steps_met: one row per model, checkpoint, step of the run $1: the last step that the n scored outputs meet, step 0
-- being the score $2 and each further one $3 above; a float sum that is off by 1e-9 still meets it, as in is_below.
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
