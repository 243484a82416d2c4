-- gold_of_run: one row per output_id, criterion_id of the run $gold_run_id on which people settled: an adjudicator's
-- latest decision, else the score that at least two raters gave alike. level_id is null where a bare score was given.
with decided as (
    select output_id, criterion_id, level_id, score
    from asked_adjudications
    where run_id = $gold_run_id
    qualify row_number() over (partition by output_id, criterion_id order by decided_at desc, line desc) = 1
),

alike as (
    select output_id, criterion_id, any_value(level_id) as level_id, max(score) as score
    from {ratings/current_ratings}
    where
        score is not null
        and output_id in (select output_id from output_scores where run_id = $gold_run_id)
    group by output_id, criterion_id
    having count(*) > 1 and max(score) = min(score)
),

final as (
    select output_id, criterion_id, level_id, score
    from decided
    where score is not null
    union all
    select output_id, criterion_id, level_id, score
    from alike
    where (output_id, criterion_id) not in (select (output_id, criterion_id) from decided)
    order by output_id, criterion_id
)

select * from final
