-- scores_elsewhere: one row per criterion_id, output_id of `preferred` that the judge scored in a run of
-- `questions_alike`, with its score (0..1) in the newest of them.
with final as (
    select verdicts.criterion_id, verdicts.output_id, verdicts.score
    from lake.verdicts as verdicts
    inner join questions_alike as alike
        on verdicts.run_id = alike.run_id
        and verdicts.criterion_id = alike.criterion_id
    where
        verdicts.run_id in (select run_id from questions_alike)
        and verdicts.status = 'scored'
        and verdicts.method = 'judge'
        and (verdicts.criterion_id, verdicts.output_id) in (select (criterion_id, output_id) from preferred)
    qualify row_number() over (
        partition by verdicts.criterion_id, verdicts.output_id order by alike.version desc
    ) = 1
)

select * from final
