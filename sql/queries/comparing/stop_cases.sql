-- stop_cases: one row per case_id, case_number of compared_outputs that can be paired: the baseline has a score of it.
with final as (
    select distinct outputs.case_id, outputs.case_number
    from compared_pairs as pairs
    inner join compared_outputs as outputs on pairs.place = outputs.place
    where pairs.is_pair and pairs.score_a is not null
)

select * from final
