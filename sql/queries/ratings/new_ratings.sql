-- new_ratings: one row per rating of the relation given that the table `ratings` lacks. A row without a score is new
-- if it has a note, or the table has a rating that it withdraws. is_same: whether `kept` and `given` are the same
-- rating. A rater's last rating without a time is added again even if an older one is equal, because the last row
-- counts.
with given as (
    from (from {given})
    where
        score is not null
        or nullif(notes, '') is not null
        or (output_id, criterion_id, rater)
        in (select (output_id, criterion_id, rater) from ratings where score is not null)
    qualify row_number() over (
        partition by output_id, criterion_id, rater, question_digest, level_id, score, notes, rated_at
        order by line desc
    ) = 1
),

unknown as (select given.* from given anti join ratings as kept on {is_same}),

last_kept as (
    from ratings
    where rated_at is null
    qualify row_number() over (partition by output_id, criterion_id, rater, question_digest order by rowid desc) = 1
),

last_given as (
    from given
    where rated_at is null
    qualify row_number() over (partition by output_id, criterion_id, rater, question_digest order by line desc) = 1
),

said_again as (
    select given.*
    from last_given as given
    where
        not exists (from last_kept as kept where {is_same})
        or (output_id, criterion_id, rater)
        in (select (output_id, criterion_id, rater) from unknown where rated_at is null)
),

final as (
    from unknown
    union
    from said_again
)

select * from final
