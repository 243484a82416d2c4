-- offered_ratings: one row per output_id, criterion_id, rater of the run $run_id: the latest rating under another text
-- of the criterion than asked_questions has, by a rater without a rating that counts. Not with a level that the
-- criterion lacks. question_digest: of the text that was rated; asked_digest: of the run's text.
with outputs_of_run as (select output_id from output_scores where run_id = $run_id),

given as (
    from (
        select *, rowid as line from ratings
        union all by name
        select null::varchar as question_digest where false  -- a version of the lake before the column
    )
    where
        output_id in (from outputs_of_run)
        and source is distinct from 'adjudication'
        and question_digest is not null
),

of_all as (from asked_questions where output_id is null),

own as (from asked_questions where output_id is not null),

other as (
    select
        given.*,
        coalesce(own.question_digest, of_all.question_digest) as asked_digest,
        coalesce(own.level_ids, of_all.level_ids) as level_ids,
    from given
    left join of_all on given.criterion_id = of_all.criterion_id
    left join own on given.criterion_id = own.criterion_id and given.output_id = own.output_id
    where given.question_digest <> coalesce(own.question_digest, of_all.question_digest)
    qualify row_number() over (
        partition by given.output_id, given.criterion_id, given.rater
        order by given.rated_at desc nulls last, given.line desc
    ) = 1
),

final as (
    select other.* exclude (level_ids, line)
    from other
    anti join asked_ratings as counting using (output_id, criterion_id, rater)
    where other.score is not null and (other.level_id is null or list_contains(other.level_ids, other.level_id))
)

select * from final
