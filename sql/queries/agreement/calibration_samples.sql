-- calibration_samples: one row per criterion_id, output_id that the judge scored in the run $run_id or, where people
-- were preferred, in another run. score and rating are 0..1; rating is an adjudicator's decision on a disputed output,
-- else the mean of the latest ratings; null if unrated, or if only a rule chose the output for rating. is_drawn: people
-- rated it, or gave it no score, because it is in the run's random sample, on the page with the source $page_source.
-- doubt_rating: as rating, if the judge's doubt drew the output with a known probability, or it is gold. gold_count:
-- ratings of it as gold.
-- shared: the output's cluster or case, as the macro cluster_of (a lake stores no macros). $criteria: these criteria,
-- also of checks; null: those of the judge.
with scored as (
    select criterion_id, output_id, method, score from agreed_verdicts where status = 'scored' and method <> 'ratings'
    union all
    select criterion_id, output_id, 'judge' as method, score from scores_elsewhere
),

outputs_of_run as (
    select *, coalesce('cluster ' || cluster, 'case ' || case_id) as shared from output_scores where run_id = $run_id
),

drawn as (
    select distinct criterion_id, output_id from agreed_ratings
    where selection = 'random' and source = $page_source
),

rated as (
    select
        ratings.criterion_id,
        ratings.output_id,
        case
            when count(ratings.sample_score) = 0 then null
            when max(decisions.output_id) is null then avg(ratings.sample_score)
            else max(decisions.score)
        end as rating,
        case
            when count(ratings.doubt_score) = 0 then null
            when max(decisions.output_id) is null then coalesce(rating, avg(ratings.doubt_score))
            else max(decisions.score)
        end as doubt_rating,
        count(*) filter (ratings.selection = 'gold') as gold_count,
    from latest_ratings as ratings
    left join latest_decisions as decisions
        on ratings.criterion_id = decisions.criterion_id
        and ratings.output_id = decisions.output_id
    where ratings.sample_score is not null or ratings.doubt_score is not null
    group by ratings.criterion_id, ratings.output_id
),

final as (
    select
        scored.criterion_id,
        outputs.model,
        outputs.checkpoint,
        outputs.case_id,
        outputs.shared,
        outputs.sample_index,
        scored.output_id,
        scored.score,
        rated.rating,
        drawn.output_id is not null as is_drawn,
        rated.doubt_rating,
        rated.gold_count,
    from scored
    inner join outputs_of_run as outputs on scored.output_id = outputs.output_id
    left join rated on scored.criterion_id = rated.criterion_id and scored.output_id = rated.output_id
    left join drawn on scored.criterion_id = drawn.criterion_id and scored.output_id = drawn.output_id
    where
        case
            when $criteria::varchar[] is null then scored.method = 'judge'
            else list_contains($criteria, scored.criterion_id)
        end
    order by scored.criterion_id, outputs.model, outputs.checkpoint, scored.output_id
)

select * from final
