-- preferences_of_run: one row per criterion_id, output_a, output_b, rater: the rater's latest choice between outputs of
-- the run $run_id, where the criterion applies; of all criteria if $criterion_id is null. wins: 1 where B was
-- preferred, 0.5 for a tie, 0 where A was. judged: the verdict's score of B minus that of A, null where one is missing
-- or a person gave it. longer: log2 of the length of B over that of A. shared: the cluster or case.
with latest as (
    from preferences
    where run_id = $run_id and ($criterion_id is null or criterion_id = $criterion_id)
    qualify row_number() over (
        partition by criterion_id, output_a, output_b, rater
        order by rated_at desc, rowid desc
    ) = 1
),

scored as (
    select run_id, output_id, criterion_id, score from verdicts where method <> 'ratings'
    union all
    select run_id, output_id, 'overall' as criterion_id, score from output_scores
),

final as (
    select
        latest.criterion_id,
        a.model as model_a,
        a.checkpoint as checkpoint_a,
        b.model as model_b,
        b.checkpoint as checkpoint_b,
        latest.output_a,
        latest.output_b,
        latest.rater,
        (sign(latest.score - 0.5) + 1) / 2 as wins,
        score_b.score - score_a.score as judged,
        log2(greatest(length(b.output), 1)) - log2(greatest(length(a.output), 1)) as longer,
        coalesce('cluster ' || b.cluster, 'case ' || b.case_id) as shared,
    from latest
    inner join outputs as a on latest.output_a = a.output_id
    inner join outputs as b on latest.output_b = b.output_id
    left join scored as score_a
        on coalesce(latest.baseline_run_id, latest.run_id) = score_a.run_id
        and latest.output_a = score_a.output_id
        and latest.criterion_id = score_a.criterion_id
    left join scored as score_b
        on latest.run_id = score_b.run_id
        and latest.output_b = score_b.output_id
        and latest.criterion_id = score_b.criterion_id
    where latest.score is not null
    order by latest.criterion_id, model_a, checkpoint_a, model_b, checkpoint_b, latest.output_a, latest.output_b
)

select * from final
