-- matched_ratings: one row per rating of the run's outputs, in order: of the file (file_matches) and of the lake
-- (asked_ratings, asked_adjudications). score is 0..1. A decision of an adjudicator has the source `adjudication`.
-- line: the later of a rater's ratings counts; a line of the file, or the lake's row id. question_digest: of a
-- rating of the file, the text that the run asks.
with of_all as (from asked_questions where output_id is null),

own as (from asked_questions where output_id is not null),

of_file as (
    select
        matches.* exclude (case_id, model, checkpoint, sample_index),
        coalesce(own.question_digest, of_all.question_digest) as question_digest,
        true as is_from_file,
    from file_matches as matches
    left join of_all on matches.criterion_id = of_all.criterion_id
    left join own on matches.criterion_id = own.criterion_id and matches.output_id = own.output_id
    where matches.output_id is not null
),

of_lake as (
    select *, false as is_from_file
    from asked_ratings
    where output_id in (select output_id from run_outputs)
),

settled as (
    select
        output_id,
        criterion_id,
        adjudicator as rater,
        level_id,
        score,
        notes,
        decided_at as rated_at,
        'adjudication' as source,
        question_digest,
        false as is_from_file,
        line,
    from asked_adjudications
    where output_id in (select output_id from run_outputs)
    qualify row_number() over (partition by output_id, criterion_id order by decided_at desc, line desc) = 1
),

final as (
    select *
    from (from of_file union all by name from of_lake union all by name from settled)
    order by output_id, criterion_id, rater, is_from_file, line
)

select * from final
