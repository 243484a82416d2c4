-- claim_marks_of_run: one row per criterion_id, output_id, step_index (the claim's number in its output), side, who:
-- the verdict of the run's judge (all its votes together) or of a rater on a claim of the run $run_id; of all criteria
-- if $criterion_id is null. score: 1 supported, 0.5 not in the source or unverified, 0 contradicted; error_type: the
-- verdict unless it is supported. Of a rater's verdicts the latest counts. shared: the cluster or case.
with chosen as (
    select output_id, coalesce('cluster ' || cluster, 'case ' || case_id) as shared
    from output_scores
    where run_id = $run_id
),

found as (
    select
        output_id,
        criterion_id,
        side,
        claim,
        any_value(verdict) as verdict,
        row_number() over (partition by output_id, criterion_id order by side, min(claim_index)) as step_index,
    from claims
    where run_id = $run_id and kind = 'verifiable' and side <> 'citation'
    group by output_id, criterion_id, side, claim
),

latest as (
    from asked_claim_ratings
    where output_id in (select output_id from chosen)
    qualify row_number() over (
        partition by output_id, criterion_id, rater, side, claim order by rated_at desc nulls last
    ) = 1
),

marks as (
    select output_id, criterion_id, step_index, 'judge' as side, 'judge' as who, verdict
    from found
    union all
    select found.output_id, found.criterion_id, found.step_index, 'rater' as side, latest.rater as who, latest.verdict
    from latest
    inner join found using (output_id, criterion_id, side, claim)
),

final as (
    select
        marks.criterion_id,
        marks.output_id,
        marks.step_index,
        marks.side,
        marks.who,
        case marks.verdict when 'supported' then 1.0 when 'contradicted' then 0.0 else 0.5 end as score,
        case marks.verdict when 'supported' then null when 'contradicted' then 'contradicted' else 'not_in_source' end
            as error_type,
        chosen.shared,
    from marks
    inner join chosen on marks.output_id = chosen.output_id
    where marks.verdict is not null and ($criterion_id is null or marks.criterion_id = $criterion_id)
    order by marks.criterion_id, marks.output_id, marks.step_index, marks.side, marks.who
)

select * from final
