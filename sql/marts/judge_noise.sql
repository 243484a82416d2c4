-- judge_noise: one row per run_id, model, checkpoint, criterion_id with several opinions, or a swapped one. Variances
-- are of scores in 0..1, over the n outputs with several opinions, opinion_count in total; rates are in 0..1; null,
-- never 0, where the sample is too small.
-- empty without: source_opinions
with run as (select * from stg_run),

variances as (select * from int_opinions_decomposed),

flips as (select * from int_opinions_flipped),

agreements as (select * from int_judges_compared),

-- A union, because a null checkpoint groups but does not join, and either side may be absent.
measured as (
    select * from variances
    union all by name
    select * from flips
    union all by name
    select * from agreements
),

final as (
    select
        run.run_id,
        measured.model,
        measured.checkpoint,
        measured.criterion_id,
        coalesce(max(measured.n), 0) as n,
        coalesce(max(measured.opinion_count), 0) as opinion_count,
        max(measured.output_variance) as output_variance,
        max(measured.judge_variance) as judge_variance,
        max(measured.flip_rate) as flip_rate,
        max(measured.swap_flip_rate) as swap_flip_rate,
        max(measured.agreement_rate) as agreement_rate,
        max(measured.effective_votes) as effective_votes,
    from measured
    cross join run
    group by run.run_id, measured.model, measured.checkpoint, measured.criterion_id
    having max(measured.n) > 0 or max(measured.swap_flip_rate) is not null
)

select * from final
