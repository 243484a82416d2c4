-- rated_outputs: one row per output_id of `shard`, in its order: the mean score (0..1) of the latest rating of each
-- rater on the criterion $criterion_id in the files $ratings_files, null if unrated. level_id: the level, if all raters
-- agree. Where an adjudicator decided, the decision alone counts. A level has the score in `levels`.
with given as (
    from read_parquet($ratings_files)
    where criterion_id = $criterion_id
    qualify source = 'adjudication' or not bool_or(source = 'adjudication') over (partition by output_id)
),

latest as (
    select
        ratings.output_id,
        ratings.rater,
        ratings.level_id,
        ratings.notes,
        coalesce(levels.score, ratings.score) as score,
    from given as ratings
    left join levels on ratings.level_id = levels.level_id
    where ratings.level_id is null or levels.level_id is not null
    qualify row_number() over (
        partition by ratings.output_id, ratings.rater
        order by ratings.is_from_file desc, ratings.rated_at desc nulls last, ratings.line desc
    ) = 1
),

rated as (
    select
        output_id,
        avg(score) as score,
        case when count(distinct level_id) = 1 and count(level_id) = count(*) then min(level_id) end as level_id,
        string_agg(rater || ': ' || coalesce(level_id, score::varchar), '; ' order by rater) as evidence,
        string_agg(rater || ': ' || notes, '; ' order by rater) as rationale,
    from latest
    where score is not null
    group by output_id
),

positions as (select output_id, row_number() over () as position from shard),

final as (
    select positions.output_id, rated.score, rated.level_id, rated.evidence, rated.rationale
    from positions
    left join rated on positions.output_id = rated.output_id
    order by positions.position
)

select * from final
