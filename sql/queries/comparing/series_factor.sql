-- series_factor: one row of the run $run_id: the factor of its look in its series, times the number of baselines that
-- its own was chosen from; 1 without them.
with final as (
    select
        coalesce((settings::json -> 'series' ->> 'factor')::double, 1)
        * coalesce((settings::json ->> 'baseline_chosen_from')::double, 1) as factor,
    from runs
    where run_id = $run_id
)

select * from final
