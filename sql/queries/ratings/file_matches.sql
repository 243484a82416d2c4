-- file_matches: one row per rating of file_ratings and output that it fits; output_id is null for a rating that fits
-- none. A rating without a checkpoint or sample_index fits any.
with final as (
    select outputs.output_id, ratings.*
    from file_ratings as ratings
    left join run_outputs as outputs
        on ratings.case_id = outputs.case_id
        and ratings.model = outputs.model
        and (ratings.checkpoint is null or ratings.checkpoint = outputs.checkpoint)
        and (ratings.sample_index is null or ratings.sample_index = outputs.sample_index)
)

select * from final
