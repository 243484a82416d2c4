-- preferences_to_verify: one row per run_id, output_id, criterion_id of a judged preference of the run $run_id, or of
-- all runs if it is null, about which a judge was asked, with the other answer, the replicates of its run's votes, and
-- the output_columns of the output, null where the lake lacks them.
with voted as (
    select run_id, list(distinct replicate) as replicates
    from opinions
    where not is_swapped
    group by run_id
),

final as (
    select
        preferences.run_id,
        preferences.output_id,
        preferences.criterion_id,
        others.output as other,
        coalesce(voted.replicates, [0]) as replicates,
        {output_columns},
    from judged_preferences as preferences
    left join outputs on preferences.output_id = outputs.output_id
    left join outputs as others on preferences.other_output_id = others.output_id
    left join voted on preferences.run_id = voted.run_id
    where preferences.request_key_first is not null and ($run_id is null or preferences.run_id = $run_id)
)

select * from final
