-- int_slices_averaged: one row per slice_number, criterion_id of the rubric with at least 2 scores. scope_id names
-- both; means are in 0..1 over the n scored outputs of the slice, pass_rate is over pass_count.
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
    from outputs
    inner join int_verdicts_numbered as verdicts on outputs.output_number = verdicts.output_number
    where verdicts.score is not null
    group by outputs.slice_number, verdicts.criterion_number, verdicts.score
),

measured as (
    select
        counted.slice_number,
        counted.criterion_number,
        sum(counted.n)::bigint as n,
        mean_of_counted(counted.score, counted.n) as mean,
        sd_of_counted(counted.score, counted.n) as sd,
        coalesce(sum(counted.n) filter (is_below(counted.score, criteria.pass_mark)), 0)::bigint as below_mark_count,
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
        case when criteria.pass_mark is null then 0 else measured.n end as pass_count,
        case when criteria.pass_mark is not null then (measured.n - measured.below_mark_count) / measured.n end
            as pass_rate,
    from measured
    inner join slices on measured.slice_number = slices.slice_number
    inner join criteria on measured.criterion_number = criteria.criterion_number
)

select * from final
