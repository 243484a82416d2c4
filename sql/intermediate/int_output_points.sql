-- int_output_points: one row per output_number with a scored verdict. Sums and counts over its scored verdicts alone,
-- so that what is missing, as a gap or as no row at all, is what the rubric's totals have more.
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_criteria),

final as (
    select
        verdicts.output_number,
        sum(criteria.weight * verdicts.score) as points,
        sum(greatest(criteria.weight, 0.0)) as positive_weight,
        sum(least(criteria.weight, 0.0)) as negative_weight,
        sum(sign(criteria.weight) * verdicts.score) as uniform_points,
        count(*) filter (criteria.weight > 0) as positive_count,
        count(*) filter (criteria.is_weighted) as weighted_count,
        count(*) filter (criteria.is_gate) as gate_count,
        count(*) filter (criteria.is_weighted and criteria.threshold is not null) as threshold_count,
        count(*) filter (criteria.is_weighted and is_below(verdicts.score, criteria.threshold))
            as below_threshold_count,
    from verdicts
    inner join criteria on verdicts.criterion_id = criteria.criterion_id
    group by verdicts.output_number
)

select * from final
