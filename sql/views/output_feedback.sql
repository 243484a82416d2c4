-- output_feedback: one row per run_id, output_id. feedback is plain text: pass or fail, a line per criterion, and the
-- level to aim for on the first failed gate, else on the criterion with the most to gain.
with told as (
    select
        run_id,
        output_id,
        list(line order by is_own, position, criterion_id) as lines,
        arg_min(aim, row(not is_failed_gate, -loss, is_own, position, criterion_id)) as aim,
    from verdict_lines
    group by run_id, output_id
),

headed as (
    select
        *,
        case is_passed when true then 'Passed' when false then 'Not passed' end as outcome,
        case len(failed_gates)
            when 0 then ''
            when 1 then ': failed the gate ' || failed_gates[1]
            else ': failed the gates ' || array_to_string(failed_gates, ', ')
        end as failure,
        unscored_count - unscored_gate_count as gap_count,
        printf(': %d %s unscored', gap_count, if(gap_count = 1, 'criterion', 'criteria')) as gaps,
        case
            when score is not null then concat(coalesce(outcome || ', score', 'Score'), printf(' %.2f', score), failure)
            when gap_count = 0 and outcome is not null then concat(outcome, failure)
            else concat(
                outcome || failure || '. ', 'No score', if(gap_count > 0, gaps, ''),
                printf(' (between %.2f and %.2f)', score_low, score_high)
            )
        end as headline,
    from output_scores
),

final as (
    select
        headed.run_id,
        headed.output_id,
        headed.case_id,
        headed.model,
        headed.checkpoint,
        headed.is_passed,
        headed.score,
        -- Each criterion takes one line, with any white space from the rubric or the judge folded.
        array_to_string(
            list_transform(
                list_concat([headline || '.'], told.lines, if(aim is null, [], ['Improve first: ' || aim])),
                lambda line: trim(regexp_replace(line, '\s+', ' ', 'g'))
            ),
            chr(10)
        ) as summary,
        coalesce(written.feedback, summary) as feedback,
    from headed
    left join told on headed.run_id = told.run_id and headed.output_id = told.output_id
    left join written_feedback as written
        on headed.run_id = written.run_id and headed.output_id = written.output_id
)

select * from final
