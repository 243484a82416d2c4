-- gold_of_file: one row per output_id, criterion_id of the ratings in file_matches: the mean score, and the level if
-- all raters of the file gave one.
with final as (
    select
        output_id,
        criterion_id,
        case when count(distinct level_id) = 1 then any_value(level_id) end as level_id,
        avg(score) as score,
    from file_matches
    where output_id is not null and score is not null
    group by output_id, criterion_id
    order by output_id, criterion_id
)

select * from final
