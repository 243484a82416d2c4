-- listed_requirements: one row per run_id, output_id, criterion_id, position (from 0): what the judge found the case
-- to ask of the output, on criteria with `lists_requirements`.
with listed as (
    select
        run_id,
        output_id,
        criterion_id,
        from_json(
            evidence, '[{"requirement": "varchar", "met": "boolean", "quote": "varchar"}]'
        ) as entries,
    from verdicts
    where method = 'judge' and starts_with(evidence, '[{"requirement":')
),

numbered as (
    select
        run_id,
        output_id,
        criterion_id,
        unnest(range(len(entries))) as position,
        unnest(entries) as entry,
    from listed
),

final as (
    select
        run_id,
        output_id,
        criterion_id,
        position,
        entry.requirement,
        entry.met as is_met,
        nullif(entry.quote, '') as quote,
    from numbered
)

select * from final
