-- judged_and_rated: one row per output_id, criterion_id of the run $run_id that a judge scored and people rated, of the
-- criterion $criterion_id, or of all where it is null. people_score: the decision of an adjudicator, or else the mean
-- of the ratings in latest_ratings, which has none by people who saw what the judge said. sample_score: likewise, null
-- if only a rule chose the output for rating.
-- bar: score from which an output passes the criterion: its threshold, of a gate without one its best level, else 0.5;
-- of a penalty the score from which it fails. distribution: probabilities of the levels, null without. levels: their
-- scores by id.
with scales as (
    select
        levels.rubric_id, levels.rubric_version, levels.criterion_id,
        max(levels.score) as best, map(list(levels.level_id), list(levels.score)) as levels,
    from levels
    group by levels.rubric_id, levels.rubric_version, levels.criterion_id
),

rated as (
    select output_id, criterion_id, avg(score) as score, avg(sample_score) as sample_score
    from latest_ratings
    group by output_id, criterion_id
),

final as (
    select
        provenance.criterion_id,
        provenance.output_id,
        provenance.case_id,
        provenance.score,
        coalesce(decided.score, rated.score) as people_score,
        case when rated.sample_score is not null then coalesce(decided.score, rated.sample_score) end as sample_score,
        judgments.distribution,
        scales.levels,
        coalesce(criteria.weight, 1) < 0 as is_penalty,
        coalesce(criteria.threshold, if(criteria.is_gate, scales.best, 0.5)) as bar,
    from provenance
    inner join criteria
        on provenance.rubric_id = criteria.rubric_id
        and provenance.rubric_version = criteria.rubric_version
        and provenance.criterion_id = criteria.criterion_id
    inner join scales
        on provenance.rubric_id = scales.rubric_id
        and provenance.rubric_version = scales.rubric_version
        and provenance.criterion_id = scales.criterion_id
    left join rated
        on provenance.output_id = rated.output_id
        and provenance.criterion_id = rated.criterion_id
    left join latest_decisions as decided
        on provenance.output_id = decided.output_id
        and provenance.criterion_id = decided.criterion_id
    left join judgments on provenance.judgment_id = judgments.judgment_id
    where
        provenance.run_id = $run_id
        and provenance.method = 'judge'
        and provenance.score is not null
        and coalesce(decided.score, rated.score) is not null
        and coalesce($criterion_id, provenance.criterion_id) = provenance.criterion_id
    order by criteria.position, provenance.output_id
)

select * from final
