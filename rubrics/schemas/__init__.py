"""JSON Schema on hostile text: nothing is fetched, no pattern backtracks, and every validation ends.

validating  check_schema, validate_outputs: faults of a schema, and verdicts on outputs
keywords    keywords of schemas with a bound on their work
files       write_out_schemas, schemas_in: the schemas of a rubric, read from files in its folder
Everything else is internal to this package.
"""
