-- offered_marks: one row per mark of the table {marks} behind a row of offered_ratings, of the criterion $criterion_id
-- or of all if it is null, under the text that the run asks with.
with offered as (
    from offered_ratings
    where $criterion_id is null or criterion_id = $criterion_id
),

final as (
    select given.* replace (offered.asked_digest as question_digest)
    from {marks} as given
    inner join offered
        on given.output_id = offered.output_id
        and given.criterion_id = offered.criterion_id
        and given.rater = offered.rater
        and given.rated_at is not distinct from offered.rated_at
        and given.question_digest = offered.question_digest
)

select * from final
