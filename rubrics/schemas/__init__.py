"""JSON Schema validation of hostile texts: nothing is fetched, no pattern backtracks, and the work is limited.

validating  check_schema, validate_outputs: faults of a schema, and verdicts on outputs
keywords    keywords of schemas with a bound on their work
files       write_out_schemas, schemas_in: the schemas of a rubric, read from files in its folder
Everything else is internal to this package.
"""
