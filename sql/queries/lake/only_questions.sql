-- only_questions: one row per output_id, criterion_id of a rated output whose runs (filled_questions) all ask with one
-- text of the criterion.
with final as (
    select scores.output_id, asked.criterion_id, any_value(asked.question_digest) as question_digest
    from output_scores as scores
    inner join filled_questions as asked on scores.run_id = asked.run_id
    where scores.output_id in (select output_id from ratings)
    group by scores.output_id, asked.criterion_id
    having count(distinct asked.question_digest) = 1
)

select * from final
