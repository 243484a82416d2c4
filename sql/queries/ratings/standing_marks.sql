-- standing_marks: one row per valid row of `marks`, in their order: of a rater's ratings of one output and criterion
-- all with a score or, if the latest has no score (a withdrawal), only the latest.
with placed as (select *, row_number() over () as place from marks),

ranked as (
    select
        *,
        row_number() over latest_first as rank,
        first_value(score is null) over latest_first as is_taken_back,
    from placed
    window latest_first as (
        partition by output_id, criterion_id, rater order by rated_at desc nulls last, line desc, place desc
    )
),

final as (
    select * exclude (place, rank, is_taken_back)
    from ranked
    where if(is_taken_back, rank = 1, score is not null)
    order by place
)

select * from final
