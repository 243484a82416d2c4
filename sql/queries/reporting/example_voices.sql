-- example_voices: one row per output_id of $output_ids, criterion_id on which people, or several judges of the run
-- $run_id, have an opinion. voices: texts `who: level`, judges first, then people's latest ratings, with their notes
-- unless the verdict's rationale has them.
with judges as (
    select
        output_id,
        criterion_id,
        0 as kind,
        concat(judge, if(is_swapped, ' (levels in the other order)', '')) as voice,
        coalesce(level_id, printf('%.2f', score), 'unscored') as said,
    from opinions
    where run_id = $run_id and list_contains($output_ids, output_id)
),

people as (
    select
        ratings.output_id,
        ratings.criterion_id,
        1 as kind,
        ratings.rater as voice,
        concat(
            coalesce(ratings.level_id, printf('%.2f', ratings.score), 'does not apply'),
            if(contains(verdicts.rationale, ratings.notes), null, ' (' || nullif(ratings.notes, '') || ')')
        ) as said,
    from {ratings/current_ratings} as ratings
    left join verdicts
        on verdicts.run_id = $run_id
        and ratings.output_id = verdicts.output_id
        and ratings.criterion_id = verdicts.criterion_id
    where
        list_contains($output_ids, ratings.output_id)
        and coalesce(ratings.score::varchar, nullif(ratings.notes, '')) is not null
),

counted as (
    select output_id, criterion_id, kind, voice, said, count(*) as times
    from (from judges union all from people)
    group by output_id, criterion_id, kind, voice, said
),

final as (
    select
        output_id,
        criterion_id,
        list(
            concat(voice, ': ', said, if(times > 1, printf(' ×%d', times), '')) order by kind, voice, times desc, said
        ) as voices,
    from counted
    group by output_id, criterion_id
    having sum(times) > 1 or max(kind) = 1
)

select * from final
