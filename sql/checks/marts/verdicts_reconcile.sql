-- Scored, unscored and unmet (by a condition) weighted verdicts and gates are outputs x criteria + per-case criteria.
-- severity: error
with verdicts as (select * from int_verdicts_weighted where is_weighted or is_gate),

criteria as (select * from int_criteria_weighted where is_weighted or is_gate),

scores as (select * from output_scores),

counts as (
    select
        (select count(*) from verdicts) as scored_count,
        (select coalesce(sum(unscored_count), 0) from scores) as unscored_count,
        (select count(*) from int_conditional_gaps where is_unmet and (is_weighted or is_gate)) as unmet_count,
        (select count(*) from scores) * (select count(*) from criteria where not is_per_case)
            + (select count(*) from criteria where is_per_case) as verdict_count,
),

final as (
    select *
    from counts
    where scored_count + unscored_count + unmet_count <> verdict_count
)

select * from final
