-- int_verdicts_reweighted: one row per output_number, criterion_number with a score whose weight is not that of its
-- output (int_outputs_weighted): other outputs of the case have no score on the criterion, so fewer share its weight.
-- empty without: int_cases_weighted
-- materialized: table
with criteria as (select * from int_criteria_weighted),

counted as (
    select
        verdicts.output_number,
        verdicts.criterion_number,
        weights.weight as output_weight,
        weights.shared_weight,
        count(*) over (partition by weights.case_number, criteria.criterion_id) as n,
    from int_verdicts_numbered as verdicts
    inner join int_outputs_weighted as weights on verdicts.output_number = weights.output_number
    inner join criteria on verdicts.criterion_number = criteria.criterion_number
    where verdicts.score is not null and weights.shared_weight is not null
),

final as (
    select output_number, criterion_number, greatest(round(shared_weight / n), 1.0)::bigint as weight,
    from counted
    where weight <> output_weight
)

select * from final
