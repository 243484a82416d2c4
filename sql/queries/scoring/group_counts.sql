-- group_counts: one row per model, checkpoint of the run, in order: its first output_id, and how many outputs it has,
-- that pass, that fail.
with final as (
    select
        model,
        checkpoint,
        min(output_id) as output_id,
        count(*) as output_count,
        count(*) filter (is_passed) as passed_count,
        count(*) filter (not is_passed) as failed_count,
    from output_scores
    group by model, checkpoint
    order by model, checkpoint nulls first
)

select * from final
