-- votes_of_run: one row per output_id, criterion_id on which a judge gave a level in the run $run_id: the run's
-- verdict, or the first vote of the judge $judge where it is not null. score is in 0..1; distribution: probabilities of
-- the levels (JSON), null without; cost_usd: of its judgment, null if unknown. shared: the output's cluster or case.
with votes as (
    select output_id, criterion_id, request_key, level_id, score
    from verdicts
    where run_id = $run_id and method = 'judge' and $judge::varchar is null
    union all
    select output_id, criterion_id, request_key, level_id, score
    from opinions
    where run_id = $run_id and judge = $judge and replicate = 0 and not is_swapped
),

asked as (
    select request_key, criterion_id, distribution, cost_usd
    from judgments
    where status = 'scored' and request_key in (select request_key from votes)
    qualify row_number() over (partition by request_key, criterion_id order by asked_at, judgment_id) = 1
),

final as (
    select
        votes.output_id,
        votes.criterion_id,
        coalesce('cluster ' || outputs.cluster, 'case ' || outputs.case_id) as shared,
        votes.level_id,
        votes.score,
        asked.distribution,
        asked.cost_usd,
    from votes
    inner join output_scores as outputs on outputs.run_id = $run_id and votes.output_id = outputs.output_id
    left join asked on votes.request_key = asked.request_key and votes.criterion_id = asked.criterion_id
    order by votes.criterion_id, votes.output_id
)

select * from final
