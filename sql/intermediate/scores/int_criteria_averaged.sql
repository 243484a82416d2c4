-- int_criteria_averaged: one row per group_number, criterion_id, of the rubric or per-case. Means and rates are in 0..1
-- over the n scored outputs, of output_count to which the criterion applies; sd is of the sample, null where n is 1;
-- pass_rate is over the pass_count scores with a pass mark; all are weighted by int_outputs_weighted and
-- int_verdicts_reweighted. category is null where the rows of a per-case criterion disagree.
-- materialized: table
with criteria as (select * from int_criteria_weighted),

-- Levels have few distinct scores, so each value shared by many verdicts is computed once.
counted as (
    select
        verdicts.group_number,
        verdicts.criterion_number,
        verdicts.score,
        count(*) as n,
        coalesce(sum(coalesce(reweighted.weight, weights.weight)), count(*)) as weight,
    from int_verdicts_numbered as verdicts
    left join int_outputs_weighted as weights on verdicts.output_number = weights.output_number
    left join int_verdicts_reweighted as reweighted
        on verdicts.output_number = reweighted.output_number
        and verdicts.criterion_number = reweighted.criterion_number
    where verdicts.score is not null
    group by verdicts.group_number, verdicts.criterion_number, verdicts.score
),

measured as (
    select
        counted.group_number,
        criteria.criterion_id,
        sum(counted.n)::bigint as n,
        mean_of_counted(counted.score, counted.weight) as mean,
        sd_of_counted(counted.score, counted.n, counted.weight) as sd,
        cubes_of(counted.score, counted.n) as cubes,
        coalesce(sum(counted.n) filter (criteria.pass_mark is not null), 0)::bigint as pass_count,
        sum(counted.weight) filter (criteria.pass_mark is not null) as pass_weight,
        coalesce(sum(counted.weight) filter (is_below(counted.score, criteria.pass_mark)), 0) as below_mark_weight,
    from counted
    inner join criteria on counted.criterion_number = criteria.criterion_number
    group by counted.group_number, criteria.criterion_id
),

applied as (
    select
        groups.group_number, criteria.is_per_case, criteria.criterion_id, criteria.category, criteria.weight_share,
        groups.output_count - coalesce(unmet.n, 0) as output_count,
    from int_groups_counted as groups
    cross join criteria
    left join (
        select group_number, criterion_number, countif(is_unmet)::bigint as n from int_conditional_gaps group by all
    ) as unmet on groups.group_number = unmet.group_number and criteria.criterion_number = unmet.criterion_number
    where not criteria.is_per_case
    union all
    select
        group_number, true as is_per_case, criterion_id,
        if(min(category) = max(category), min(category), null) as category, null as weight_share,
        count(*) as output_count,
    from criteria
    where is_per_case
    group by group_number, criterion_id
),

final as (
    select
        applied.*,
        coalesce(measured.n, 0) as n,
        measured.mean,
        measured.sd,
        skewness_of(measured.n, measured.mean, measured.sd, measured.cubes) as skewness,
        coalesce(measured.pass_count, 0) as pass_count,
        (measured.pass_weight - measured.below_mark_weight) / measured.pass_weight as pass_rate,
    from applied
    left join measured
        on applied.group_number = measured.group_number
        and applied.criterion_id = measured.criterion_id
)

select * from final
