-- ratings_of_run: one row per rating that the run published as the version $version took, of the outputs in the file
-- $outputs: the ratings of the version $taken, before it judged, and those that its publication added to the version
-- $before; and one per decision of an adjudicator ({decisions}). is_from_file: from the run's own ratings $file, which
-- take precedence over the lake's; $file is null if it had none.
with earlier as (select rowid as id from ratings at (version => $before)),

taken as (select rowid as id from ratings at (version => $taken)),

decisions as (
    select
        output_id,
        criterion_id,
        adjudicator as rater,
        level_id,
        score,
        decided_at as rated_at,
        'adjudication' as source,
        false as is_from_file,
        line,
    from {decisions}
    where output_id in (select output_id from read_parquet($outputs))
),

stored_ratings as (
    select
        stored.*,
        earlier.id is null or coalesce(stored.source = $file, false) as is_from_file,
        stored.rowid as line,
    from ratings as stored at (version => $version)
    left join earlier on stored.rowid = earlier.id
    where
        stored.output_id in (select output_id from read_parquet($outputs))
        and (earlier.id is null or stored.rowid in (select id from taken))
),

final as (
    from stored_ratings
    union all by name
    from decisions
)

select * from final
