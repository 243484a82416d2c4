-- category_scores: one row per run_id, model, checkpoint, category, inner and outer ones. Scores and rates in 0..1 over
-- the n outputs that have a score in the category; ci_low and ci_high as in criterion_scores; pass_rate over outputs
-- whose gates and thresholds of the category are known, null where it has none.
with scores as (select * from int_category_scores),

categories as (select * from int_categories),

rubric as (select * from int_rubric),

measured as (
    select
        model,
        checkpoint,
        category,
        count(*) as output_count,
        count(score) as n,
        avg(score) as mean,
        stddev_samp(score) as sd,
        avg(is_met::integer) as pass_rate,
    from scores
    group by model, checkpoint, category
),

final as (
    select
        rubric.run_id,
        measured.model,
        measured.checkpoint,
        measured.category,
        measured.output_count,
        measured.n,
        measured.mean,
        measured.sd,
        clip(measured.mean - t_margin(measured.sd, measured.n)) as ci_low,
        clip(measured.mean + t_margin(measured.sd, measured.n)) as ci_high,
        measured.pass_rate,
        measured.n / measured.output_count as coverage_rate,
        categories.weight,
        case when not rubric.has_own_weights then categories.weight * measured.mean end as contribution,
        categories.parent,
    from measured
    left join categories on measured.category = categories.category
    cross join rubric
)

select * from final
