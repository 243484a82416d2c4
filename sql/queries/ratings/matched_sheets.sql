-- matched_sheets: one row per row of `sheets`, in order: the output that the sheet of ratings is about, found by id or
-- else by case, and how many outputs fit. Names in the sheet must agree with the output; a null fits any. $run_id:
-- outputs of this run alone; null: of all.
with candidates as (
    select output_id, case_id, model, checkpoint, sample_index
    from outputs
    where $run_id is null or output_id in (select output_id from output_scores where run_id = $run_id)
),

by_id as (
    select sheets.sheet, candidates.output_id
    from sheets
    inner join candidates on candidates.output_id = coalesce(sheets.output_id, sheets.name)
    where
        (sheets.case_id is null or sheets.case_id = candidates.case_id)
        and (sheets.model is null or sheets.model = candidates.model)
        and (sheets.checkpoint is null or sheets.checkpoint = candidates.checkpoint)
        and (sheets.sample_index is null or sheets.sample_index = candidates.sample_index)
),

by_case as (
    select sheets.sheet, candidates.output_id
    from sheets
    inner join candidates on candidates.case_id = coalesce(sheets.case_id, sheets.name)
    where
        sheets.output_id is null
        and sheets.sheet not in (select sheet from by_id)
        and (sheets.model is null or sheets.model = candidates.model)
        and (sheets.checkpoint is null or sheets.checkpoint = candidates.checkpoint)
        and (sheets.sample_index is null or sheets.sample_index = candidates.sample_index)
),

fits as (
    select sheet, min(output_id) as output_id, count(*) as fit_count
    from (from by_id union all from by_case)
    group by sheet
),

final as (
    select fits.output_id, coalesce(fits.fit_count, 0) as fit_count
    from sheets
    left join fits on sheets.sheet = fits.sheet
    order by sheets.sheet
)

select * from final
