-- new_preferences: one row per row of given_preferences that the table `preferences` lacks, with its case. Of a rater's
-- choices without a time the last one of the file counts, and is new unless the last one of the table is equal.
with given as (
    select * exclude (place)
    from (select *, row_number() over () as place from given_preferences)
    qualify
        rated_at is not null
        or row_number() over (
            partition by run_id, output_a, output_b, criterion_id, rater, rated_at order by place desc
        ) = 1
),

known as (
    from preferences
    qualify
        rated_at is not null
        or row_number() over (
            partition by run_id, output_a, output_b, criterion_id, rater, rated_at order by rowid desc
        ) = 1
),

final as (
    select distinct given.*, outputs.case_id
    from given
    inner join outputs on given.output_a = outputs.output_id
    anti join known
        on given.run_id = known.run_id
        and given.output_a = known.output_a
        and given.output_b = known.output_b
        and given.criterion_id = known.criterion_id
        and given.rater = known.rater
        and given.rated_at is not distinct from known.rated_at
        and given.choice is not distinct from known.choice
        and given.score is not distinct from known.score
        and given.notes is not distinct from known.notes
        and given.likert_value is not distinct from known.likert_value
)

select * from final
