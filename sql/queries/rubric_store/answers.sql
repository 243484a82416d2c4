-- answers: one row per row of {given} that answers a question of the relation asked_questions: its text is the one that
-- was rated. A row whose text was not recorded counts by the criterion's id, and has the text asked.
with given as (
    from {given}
    union all by name
    select null::varchar as question_digest where false  -- a version of the lake before the column
),

of_all as (from asked_questions where output_id is null),

own as (from asked_questions where output_id is not null),

final as (
    select
        given.* replace (
            coalesce(given.question_digest, own.question_digest, of_all.question_digest) as question_digest
        ),
    from given
    left join of_all on given.criterion_id = of_all.criterion_id
    left join own on given.criterion_id = own.criterion_id and given.output_id = own.output_id
    where
        coalesce(own.criterion_id, of_all.criterion_id) is not null
        and coalesce(given.question_digest = coalesce(own.question_digest, of_all.question_digest), true)
)

select * from final
