-- questions_alike: one row per run_id, criterion_id of another published run that put the same question to the same
-- judge as the run $run_id, with the same level scores and as many replicates. version is the other run's.
with asked as (
    select
        runs.run_id,
        runs.settings::json -> 'judge' as identity,
        runs.version,
        criteria.criterion_id,
        criteria.digest,
        criteria.method,
        (
            select list(levels.level_id || '=' || levels.score order by levels.level_id)
            from levels
            where
                levels.rubric_id = criteria.rubric_id
                and levels.rubric_version = criteria.rubric_version
                and levels.criterion_id = criteria.criterion_id
        ) as level_scores,
        (select max(replicate) from opinions where opinions.run_id = runs.run_id) as last_replicate,
    from runs
    inner join criteria on runs.rubric_id = criteria.rubric_id and runs.rubric_version = criteria.rubric_version
    where runs.status = 'published' and runs.judge = (select judge from runs where run_id = $run_id)
),

final as (
    select other.run_id, other.version, own.criterion_id
    from asked as own
    inner join asked as other
        on own.criterion_id = other.criterion_id
        and own.digest = other.digest
        and own.identity is not distinct from other.identity
        and own.level_scores is not distinct from other.level_scores
        and own.last_replicate is not distinct from other.last_replicate
    where own.run_id = $run_id and other.run_id <> $run_id and own.method = 'judge' and other.method = 'judge'
)

select * from final
