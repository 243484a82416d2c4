-- replicated_outputs: one row per output_id of run_outputs that counts: each of its verdicts from replies has
-- replies of all $judge_count judges to the first $replicate_count replicates.
with counted as (
    select output_id, count(*) filter (replicate < $replicate_count) as opinion_count
    from run_opinions
    group by output_id, criterion_id
),

final as (
    select *
    from run_outputs
    where output_id not in (select output_id from counted where opinion_count < $replicate_count * $judge_count)
)

select * from final
