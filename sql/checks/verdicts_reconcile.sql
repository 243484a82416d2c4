-- Scored and unscored verdicts add up to outputs times criteria, counting weighted criteria and gates.
-- severity: error
with verdicts as (select * from int_verdicts where score is not null),

criteria as (select * from int_criteria where is_weighted or is_gate),

scores as (select * from output_scores),

scored as (
    select count(*) as scored_count,
    from verdicts
    semi join criteria on verdicts.criterion_id = criteria.criterion_id
),

expected as (
    select
        coalesce(sum(unscored_count), 0) as unscored_count,
        count(*) * (select count(*) from criteria) as verdict_count,
    from scores
),

final as (
    select
        scored.scored_count,
        expected.unscored_count,
        expected.verdict_count,
    from scored
    cross join expected
    where scored.scored_count + expected.unscored_count <> expected.verdict_count
)

select * from final
