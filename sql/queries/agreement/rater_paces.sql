-- rater_paces: one row per rater of agreed_ratings with times: the sheets submitted on a rating page, the time they
-- took, and how many were submitted faster than the output can be read. median_sheet_s: seconds.
-- $least_sheet_s: seconds below which no sheet is read; $reading_rate: characters a second.
with sheets as (
    select rater, output_id, rated_at, max(spent_s) as spent_s
    from agreed_ratings
    where spent_s is not null
    group by rater, output_id, rated_at
),

final as (
    select
        sheets.rater,
        count(*) as sheet_count,
        sum(sheets.spent_s) / 60 as minutes,
        median(sheets.spent_s) as median_sheet_s,
        count(*) filter (
            where sheets.spent_s < greatest($least_sheet_s, length(outputs.output) / $reading_rate)
        ) as fast_sheet_count,
    from sheets
    inner join outputs on sheets.output_id = outputs.output_id
    group by sheets.rater
    order by sheets.rater
)

select * from final
