-- run_feedback: one row per run_id, model, checkpoint. feedback has the form of output_feedback, for means; the weakest
-- criterion is the one with the lowest mean, of a gate with the lowest pass rate, among those with a better level.
with told as (
    select
        run_id,
        model,
        checkpoint,
        list(line order by is_own, position, criterion_id) as lines,
        arg_min(aim, row(merit, is_own, position, criterion_id)) as weakest,
    from mean_lines
    group by run_id, model, checkpoint
),

headed as (
    select
        *,
        concat(
            if(n < output_count, n || ' of ', ''), output_count, if(output_count = 1, ' output', ' outputs')
        ) as counted,
        concat(
            case when n > 0 then printf('Mean %.2f', mean) else 'No mean' end,
            printf(' (%.2f to %.2f)', ci_low, ci_high),
            ' over ', counted,
            printf('; %.1f%% passed', 100.0 * pass_rate),
            '.'
        ) as headline,
    from run_scores
),

final as (
    select
        headed.run_id,
        headed.model,
        headed.checkpoint,
        headed.mean,
        headed.pass_rate,
        array_to_string(
            list_transform(
                list_concat([headline], told.lines, if(weakest is null, [], ['Weakest: ' || weakest])),
                lambda line: trim(regexp_replace(line, '\s+', ' ', 'g'))
            ),
            chr(10)
        ) as summary,
        coalesce(written.feedback, summary) as feedback,
    from headed
    left join told
        on headed.run_id = told.run_id
        and headed.model = told.model
        and headed.checkpoint is not distinct from told.checkpoint
    left join written_feedback as written
        on headed.run_id = written.run_id
        and written.output_id is null
        and headed.model = written.model
        and headed.checkpoint is not distinct from written.checkpoint
)

select * from final
