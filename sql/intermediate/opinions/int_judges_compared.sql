-- int_judges_compared: one row per model, checkpoint, criterion_id with levels from several judges. agreement_rate
-- (0..1) is over pairs of judges, by the first opinion of each. effective_votes comes from the correlation of the
-- judges' mean scores over at least 3 outputs, null where a pair of judges has no correlation.
with opinions as (select * from int_opinions_numbered where not is_swapped),

voices as (
    select
        model,
        checkpoint,
        criterion_id,
        output_number,
        judge,
        exact_mean(score) as score,  -- equal means compare as equal for any number of replicates
        arg_min(level_id, replicate) as level_id,
    from opinions
    group by model, checkpoint, criterion_id, output_number, judge
),

pairs as (
    select
        one.model,
        one.checkpoint,
        one.criterion_id,
        one.judge,
        other.judge as other_judge,
        count(one.level_id = other.level_id) as pair_count,  -- none of claims, whose scores have no level
        count(*) filter (one.level_id = other.level_id) as equal_count,
        case
            when count(*) > 2 and min(one.score) < max(one.score) and min(other.score) < max(other.score)
                then exact_corr(one.score, other.score)
        end as correlation,
    from voices as one
    inner join voices as other
        on one.output_number = other.output_number
        and one.criterion_id = other.criterion_id
        and one.judge < other.judge
    group by one.model, one.checkpoint, one.criterion_id, one.judge, other.judge
),

agreements as (
    select
        model,
        checkpoint,
        criterion_id,
        len(list_distinct(list_concat(list(judge), list(other_judge)))) as judge_count,
        sum(equal_count) / nullif(sum(pair_count), 0) as agreement_rate,
        count(correlation) as known_count,
        clip(exact_mean(correlation)) as correlation,
    from pairs
    group by model, checkpoint, criterion_id
),

final as (
    select
        model,
        checkpoint,
        criterion_id,
        agreement_rate,
        case
            when known_count = judge_count * (judge_count - 1) / 2
                then judge_count / (1 + (judge_count - 1) * correlation)
        end as effective_votes,
    from agreements
)

select * from final
