-- queue_random: one row per output_id of the run $run_id, in a fixed order that the caller shuffles.
with final as (
    select output_id
    from output_scores
    where run_id = $run_id
    order by output_id
)

select * from final
