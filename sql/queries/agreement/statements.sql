-- statements: one row per criterion_id, output_id, side, who. side: 'rater' (a person), 'judge' (the run's verdict,
-- who is empty), 'member' (one judge of a panel: its first opinion, as in judge_noise) or 'settled' (an adjudicator's
-- decision, who is empty). level_score and score are 0..1: the score of the level, and the score that was given; both
-- null where the judge left a verdict unscored. A run with one judge has no members, only the verdict. shared: the
-- output's cluster or case, as the macro cluster_of.
with judged as (
    select
        verdicts.criterion_id,
        verdicts.output_id,
        case when verdicts.status = 'scored' then coalesce(levels.score, verdicts.score) end as level_score,
        case when verdicts.status = 'scored' then verdicts.score end as score,
    from agreed_verdicts as verdicts
    semi join latest_ratings as ratings
        on verdicts.criterion_id = ratings.criterion_id
        and verdicts.output_id = ratings.output_id
    left join agreed_levels as levels
        on verdicts.criterion_id = levels.criterion_id
        and verdicts.level_id = levels.level_id
    where verdicts.method <> 'ratings'
),

first_opinions as (
    select
        criterion_id,
        output_id,
        judge,
        arg_min(level_id, replicate) as level_id,
        arg_min(score, replicate) as score,
    from agreed_opinions
    where
        not is_swapped
        and status = 'scored'
        and (select count(distinct judge) from agreed_opinions) > 1
    group by criterion_id, output_id, judge
),

said as (
    select criterion_id, output_id, 'rater' as side, rater as who, score as level_score, score from latest_ratings
    union all
    select criterion_id, output_id, 'settled' as side, '' as who, score as level_score, score
    from latest_decisions
    where score is not null and (criterion_id, output_id) in (select (criterion_id, output_id) from latest_ratings)
    union all
    select criterion_id, output_id, 'judge' as side, '' as who, level_score, score from judged
    union all
    select
        opinions.criterion_id,
        opinions.output_id,
        'member' as side,
        opinions.judge as who,
        coalesce(levels.score, opinions.score) as level_score,
        opinions.score,
    from first_opinions as opinions
    left join agreed_levels as levels
        on opinions.criterion_id = levels.criterion_id
        and opinions.level_id = levels.level_id
),

final as (
    select said.*, coalesce(outputs.shared, said.output_id) as shared
    from said
    left join agreed_outputs as outputs on said.output_id = outputs.output_id
)

select * from final
