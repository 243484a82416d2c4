-- queue_adjudicate: one row per output_id of the run $run_id that two raters score differently on one criterion, if
-- nobody has decided since. spread: the largest distance of two ratings, 0..1; the widest first. opinions: of each
-- criterion in dispute its id, and each rating with its rater and time, in the order of the raters.
with criteria_of_run as (select distinct output_id, criterion_id from verdicts where run_id = $run_id),

rated as (
    select ratings.*
    from {ratings/current_ratings} as ratings
    inner join criteria_of_run using (output_id, criterion_id)
),

decided as (
    select output_id, criterion_id, max(decided_at) as decided_at
    from asked_adjudications
    group by output_id, criterion_id
),

disputed as (
    select
        rated.output_id,
        rated.criterion_id,
        max(rated.score) - min(rated.score) as spread,
        list(
            {
                'level_id': rated.level_id,
                'score': rated.score,
                'notes': rated.notes,
                'rater': rated.rater,
                'rated_at': strftime(rated.rated_at, '%Y-%m-%d %H:%M UTC'),
            }
            order by rated.rater
        ) as opinions,
    from rated
    left join decided using (output_id, criterion_id)
    group by rated.output_id, rated.criterion_id, decided.decided_at
    having max(rated.score) - min(rated.score) > 1e-9 and coalesce(max(rated.rated_at) > decided.decided_at, true)
),

final as (
    select output_id, max(spread) as spread, list(struct_pack(criterion_id, opinions) order by criterion_id) as opinions
    from disputed
    group by output_id
    order by spread desc, output_id
)

select * from final
