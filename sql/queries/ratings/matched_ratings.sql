-- matched_ratings: one row per rating of the run's outputs, in order: of the file (file_matches) and of the lake. score
-- is 0..1. A decision of an adjudicator has the source `adjudication`. line: the later of a rater's ratings counts; a
-- line of the file, or the lake's row id.
with of_file as (
    select * exclude (case_id, model, checkpoint, sample_index), true as is_from_file
    from file_matches
    where output_id is not null
),

of_lake as (
    select *, false as is_from_file, rowid as line
    from ratings
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
        false as is_from_file,
        rowid as line,
    from adjudications
    where output_id in (select output_id from run_outputs)
    qualify row_number() over (partition by output_id, criterion_id order by decided_at desc, rowid desc) = 1
),

final as (
    select output_id, criterion_id, rater, level_id, score, notes, rated_at, source, is_from_file, line from of_file
    union all
    select output_id, criterion_id, rater, level_id, score, notes, rated_at, source, is_from_file, line from of_lake
    union all
    from settled
    order by output_id, criterion_id, rater, is_from_file, line
)

select * from final
