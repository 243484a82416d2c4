-- run_choices: one row per case_id, rater, output_a, output_b: the rater's latest choice between two outputs of the run
-- $run_id as a whole, the latest first. score: preference for B.
with latest as (
    from preferences
    where run_id = $run_id and baseline_run_id is null and criterion_id = 'overall'
    qualify row_number() over (partition by output_a, output_b, rater order by rated_at desc nulls last, rowid desc) = 1
),

final as (
    select
        a.case_id,
        latest.rater,
        a.model as model_a,
        b.model as model_b,
        latest.score,
        latest.notes,
        latest.likert_value,
    from latest
    inner join outputs as a on latest.output_a = a.output_id
    inner join outputs as b on latest.output_b = b.output_id
    where latest.score is not null
    order by a.case_id, latest.rated_at desc nulls last, latest.rater, latest.output_a, latest.output_b
)

select * from final
