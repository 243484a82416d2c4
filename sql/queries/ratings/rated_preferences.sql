-- rated_preferences: one row per rating of given_ratings whose criterion compares the output with another model's, as a
-- row of the table `preferences` of the run $run_id, where the run has both outputs. Side A is the output of the model
-- and checkpoint that comes first by name. likert_value: the rating's score.
with pairs as (
    select
        given.*,
        rated.run_id,
        others.output_id as other_id,
        (rated.model, coalesce(rated.checkpoint, '')) < (others.model, coalesce(others.checkpoint, '')) as is_a,
    from given_ratings as given
    inner join given_baselines as baselines on given.criterion_id = baselines.criterion_id
    inner join output_scores as rated on given.output_id = rated.output_id
    inner join output_scores as others
        on rated.run_id = others.run_id
        and rated.case_id = others.case_id
        and rated.sample_index = others.sample_index
        and rated.output_id <> others.output_id
        and baselines.against in (others.model, others.model || ' @ ' || others.checkpoint)
    where given.score is not null and rated.run_id = $run_id
    qualify row_number() over (partition by given.line order by others.checkpoint nulls first, others.output_id) = 1
),

final as (
    select
        run_id,
        if(is_a, output_id, other_id) as output_a,
        if(is_a, other_id, output_id) as output_b,
        criterion_id,
        rater,
        case when score = 0.5 then 'tie' when (score > 0.5) = is_a then 'a' else 'b' end as choice,
        case when score = 0.5 then 0.5 when (score > 0.5) = is_a then 0.25 else 0.75 end as score,
        notes,
        rated_at,
        score as likert_value,
    from pairs
    order by line
)

select * from final
