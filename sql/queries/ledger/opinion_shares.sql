-- opinion_shares: one row: how many outputs of the run $run_id have opinions, how many replicates, and the shares
-- (0..1) of outputs with more than one replicate and with swapped opinions; none where the run has no opinions.
with final as (
    select
        count(distinct output_id) as output_count,
        max(replicate) + 1 as replicate_count,
        count(distinct output_id) filter (replicate > 0) / count(distinct output_id) as replicate_share,
        count(distinct output_id) filter (is_swapped) / count(distinct output_id) as swap_share,
    from opinions
    where run_id = $run_id
    having count(*) > 0
)

select * from final
