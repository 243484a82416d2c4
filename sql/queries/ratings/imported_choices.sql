-- imported_choices: one row per row of given_choices whose two outputs a published run has, in order, as a row of the
-- table `preferences`: of the run $run_id, or of the latest one if it is null. Side A is the output of the model and
-- checkpoint that comes first by name.
with sides as (
    select
        given.line,
        runs.run_id,
        chosen.output_id as chosen_id,
        others.output_id as other_id,
        (chosen.model, coalesce(chosen.checkpoint, '')) < (others.model, coalesce(others.checkpoint, '')) as is_a,
    from given_choices as given
    inner join output_scores as chosen on given.chosen_id = chosen.output_id
    inner join output_scores as others on given.other_id = others.output_id and chosen.run_id = others.run_id
    inner join runs on chosen.run_id = runs.run_id
    where runs.status = 'published' and ($run_id is null or runs.run_id = $run_id)
    qualify row_number() over (partition by given.line order by runs.version desc) = 1
),

final as (
    select
        sides.run_id,
        if(sides.is_a, sides.chosen_id, sides.other_id) as output_a,
        if(sides.is_a, sides.other_id, sides.chosen_id) as output_b,
        'overall' as criterion_id,
        given.rater,
        if(sides.is_a, 'a', 'b') as choice,
        if(sides.is_a, 0.25, 0.75) as score,
        given.notes,
        given.rated_at,
        given.likert_value,
    from given_choices as given
    inner join sides on given.line = sides.line
    order by given.line
)

select * from final
