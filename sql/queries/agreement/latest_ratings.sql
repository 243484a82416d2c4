-- latest_ratings: one row per criterion_id, output_id, rater: the rating that counts in a verdict too (see
-- tasks/ratings/run_ratings.py), with its selection. score is 0..1: what the criterion gives the level now.
-- doubt_score: of an output that the judge's doubt drew, with a known probability, or of gold, which may be in the same
-- queue. sample_score: that of the rater's
-- latest rating of an output that no rule chose for rating, null if there is none. Ratings of a criterion that does
-- not apply to the output do not count, nor do ratings that their rater took back, nor decisions of an adjudicator,
-- nor ratings by people who saw what the judge said.
with criteria_of_all as (select criterion_id from asked_questions where output_id is null),

criteria_of_outputs as (select criterion_id, output_id from asked_questions where output_id is not null),

valid as (
    select
        ratings.* exclude (score),
        coalesce(levels.score, ratings.score) as score,
        coalesce(ratings.selection in ('random', 'calibration'), true) as is_in_sample,
    from agreed_ratings as ratings
    left join agreed_levels as levels
        on ratings.criterion_id = levels.criterion_id
        and ratings.level_id = levels.level_id
    where
        ratings.source is distinct from 'adjudication'
        and ratings.selection is distinct from 'judge_shown'
        and (
            ratings.criterion_id in (select criterion_id from criteria_of_all)
            or (ratings.criterion_id, ratings.output_id) in (select (criterion_id, output_id) from criteria_of_outputs)
        )
        and (
            ratings.level_id is null
            or levels.level_id is not null
            -- Per-case criteria have no rows among the levels.
            or ratings.criterion_id not in (select criterion_id from agreed_levels)
        )
        and (ratings.criterion_id, ratings.output_id) not in (
            select (criterion_id, output_id)
            from agreed_verdicts
            where starts_with(coalesce(reason, ''), 'not_applicable: condition not met')
        )
),

final as (
    select
        criterion_id,
        output_id,
        rater,
        score,
        selection,
        gold_score,
        case
            when selection = 'gold' or (selection = 'uncertain' and inclusion_rate is not null) then score
        end as doubt_score,
        first_value(case when is_in_sample then score end) over (
            partition by output_id, criterion_id, rater
            order by is_in_sample desc, is_from_file desc, rated_at desc nulls last, line desc
        ) as sample_score,
    from valid
    qualify row_number() over (
        partition by output_id, criterion_id, rater
        order by is_from_file desc, rated_at desc nulls last, line desc
    ) = 1 and score is not null
)

select * from final
