-- int_slices_averaged: one row per slice_number, criterion_id of the rubric with at least 2 scores. scope_id names
-- both; means are in 0..1 over the n scored outputs of the slice, pass_rate is over pass_count. output_weight: n, or
-- the sum of the outputs' weights (as in int_criteria_averaged), by which means and rates are weighted.
-- materialized: table
with outputs as (select * from int_outputs_sliced),

criteria as (select * from int_criteria_weighted where not is_per_case),

slices as (
    select slice_number, model, checkpoint, slice_key, slice_value,
    from outputs
    group by all
),

counted as (
    select
        outputs.slice_number,
        verdicts.criterion_number,
        verdicts.score,
        count(*) as n,
        coalesce(sum(coalesce(reweighted.weight, weights.weight)), count(*)) as weight,
    from outputs
    inner join int_verdicts_numbered as verdicts on outputs.output_number = verdicts.output_number
    left join int_outputs_weighted as weights on outputs.output_number = weights.output_number
    left join int_verdicts_reweighted as reweighted
        on verdicts.output_number = reweighted.output_number
        and verdicts.criterion_number = reweighted.criterion_number
    where verdicts.score is not null
    group by outputs.slice_number, verdicts.criterion_number, verdicts.score
),

measured as (
    select
        counted.slice_number,
        counted.criterion_number,
        sum(counted.n)::bigint as n,
        sum(counted.weight) as output_weight,
        mean_of_counted(counted.score, counted.weight) as mean,
        sd_of_counted(counted.score, counted.n, counted.weight) as sd,
        cubes_of(counted.score, counted.n) as cubes,
        coalesce(sum(counted.weight) filter (is_below(counted.score, criteria.pass_mark)), 0) as below_mark_weight,
    from counted
    inner join criteria on counted.criterion_number = criteria.criterion_number
    group by counted.slice_number, counted.criterion_number
    having sum(counted.n) > 1
),

final as (
    select
        measured.slice_number || ' ' || criteria.criterion_id as scope_id,
        slices.*,
        criteria.criterion_id,
        measured.n as output_count,
        measured.n,
        measured.mean,
        measured.sd,
        skewness_of(measured.n, measured.mean, measured.sd, measured.cubes) as skewness,
        case when criteria.pass_mark is null then 0 else measured.n end as pass_count,
        case
            when criteria.pass_mark is not null
                then (measured.output_weight - measured.below_mark_weight) / measured.output_weight
        end as pass_rate,
        measured.output_weight,
    from measured
    inner join slices on measured.slice_number = slices.slice_number
    inner join criteria on measured.criterion_number = criteria.criterion_number
)

select * from final
