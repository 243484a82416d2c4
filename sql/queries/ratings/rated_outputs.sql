-- rated_outputs: one row per row of `asked` (output_id, criterion_id, place), in the order of `line`: the mean score
-- (0..1) of the latest rating of each rater in the files $ratings_files, null if unrated. level_id: the level, if all
-- raters agree. Where an adjudicator decided, the decision alone counts. A level has the score that `levels` gives it
-- at the criterion's place.
with given as (
    select ratings.*, asked.line as asked_line, asked.place
    from read_parquet($ratings_files) as ratings
    inner join asked on ratings.output_id = asked.output_id and ratings.criterion_id = asked.criterion_id
    qualify source = 'adjudication' or not bool_or(source = 'adjudication') over (partition by asked_line)
),

latest as (
    select
        ratings.asked_line,
        ratings.rater,
        ratings.level_id,
        ratings.notes,
        coalesce(levels.score, ratings.score) as score,
    from given as ratings
    left join levels on ratings.place = levels.place and ratings.level_id = levels.level_id
    where ratings.level_id is null or levels.level_id is not null
    qualify row_number() over (
        partition by ratings.asked_line, ratings.rater
        order by ratings.is_from_file desc, ratings.rated_at desc nulls last, ratings.line desc
    ) = 1
),

rated as (
    select
        asked_line,
        avg(score) as score,
        case when count(distinct level_id) = 1 and count(level_id) = count(*) then min(level_id) end as level_id,
        string_agg(rater || ': ' || coalesce(level_id, score::varchar), '; ' order by rater) as evidence,
        string_agg(rater || ': ' || notes, '; ' order by rater) as rationale,
    from latest
    where score is not null
    group by asked_line
),

final as (
    select rated.score, rated.level_id, rated.evidence, rated.rationale
    from asked
    left join rated on asked.line = rated.asked_line
    order by asked.line
)

select * from final
