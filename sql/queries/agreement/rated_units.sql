-- rated_units: one row per criterion_id, output_id, rater of latest_ratings, in order. score is 0..1. decided: the
-- score that another person decided as an adjudicator, null if nobody did. gold: what was settled when the rater
-- rated a gold output, else null. shared: the output's cluster or case. model: with its checkpoint. $criterion_id:
-- this criterion; null: all.
with final as (
    select
        ratings.criterion_id,
        ratings.output_id,
        ratings.rater,
        ratings.score,
        case when decisions.adjudicator is distinct from ratings.rater then decisions.score end as decided,
        ratings.gold_score as gold,
        outputs.shared,
        contents.model || coalesce(' @ ' || contents.checkpoint, '') as model,
    from latest_ratings as ratings
    inner join agreed_outputs as outputs on ratings.output_id = outputs.output_id
    inner join outputs as contents on ratings.output_id = contents.output_id
    left join latest_decisions as decisions
        on ratings.criterion_id = decisions.criterion_id
        and ratings.output_id = decisions.output_id
    where $criterion_id is null or ratings.criterion_id = $criterion_id
    order by ratings.criterion_id, ratings.output_id, ratings.rater
)

select * from final
