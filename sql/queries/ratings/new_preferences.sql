-- new_preferences: one row per row of given_preferences that the table `preferences` lacks, with its case.
with final as (
    select distinct given.*, outputs.case_id
    from given_preferences as given
    inner join outputs on given.output_a = outputs.output_id
    anti join preferences as kept
        on given.run_id = kept.run_id
        and given.output_a = kept.output_a
        and given.output_b = kept.output_b
        and given.criterion_id = kept.criterion_id
        and given.rater = kept.rater
        and given.rated_at is not distinct from kept.rated_at
)

select * from final
