-- new_preferences: one row per row of given_preferences that the table `preferences` lacks, with its case. A choice without
-- a time is new if it differs from the rater's last one without a time, because the last row counts.
with last_kept as (
    from preferences
    qualify
        rated_at is not null
        or row_number() over (
            partition by run_id, output_a, output_b, criterion_id, rater, rated_at
            order by rowid desc
        ) = 1
),

final as (
    select distinct given.*, outputs.case_id
    from given_preferences as given
    inner join outputs on given.output_a = outputs.output_id
    anti join last_kept as kept
        on given.run_id = kept.run_id
        and given.output_a = kept.output_a
        and given.output_b = kept.output_b
        and given.criterion_id = kept.criterion_id
        and given.rater = kept.rater
        and given.rated_at is not distinct from kept.rated_at
        and (
            given.rated_at is not null
            or (
                given.score is not distinct from kept.score
                and given.notes is not distinct from kept.notes
                and given.likert_value is not distinct from kept.likert_value
            )
        )
)

select * from final
