-- int_slice_means: one row per slice_number, criterion_id of the rubric with 2 scores or more. scope_id names both;
-- scores in 0..1 over the n scored outputs of the slice, pass_rate over pass_count.
with outputs as (select * from int_slice_outputs),

verdicts as (select * from int_scored_verdicts where not is_own),

final as (
    select
        outputs.slice_number || ' ' || verdicts.criterion_id as scope_id,
        outputs.slice_number,
        outputs.model,
        outputs.checkpoint,
        any_value(outputs.slice_key) as slice_key,
        any_value(outputs.slice_value) as slice_value,
        verdicts.criterion_id,
        count(*) as output_count,
        count(*) as n,
        exact_mean(verdicts.score) as mean,
        exact_sd(verdicts.score) as sd,
        is_rate(verdicts.score) as is_rate,
        count(verdicts.pass_mark) as pass_count,
        avg(1.0 - is_below(verdicts.score, verdicts.pass_mark)::integer) as pass_rate,
    from outputs
    inner join verdicts on outputs.output_number = verdicts.output_number
    group by outputs.slice_number, outputs.model, outputs.checkpoint, verdicts.criterion_id
    having count(*) > 1
)

select * from final
