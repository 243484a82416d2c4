"""JSON Schema on hostile text: nothing is fetched, no pattern backtracks, and every validation ends.

validating  check_schema, validate_outputs: faults of a schema, and verdicts on outputs
files       write_out_schemas, schemas_in: the schemas of a rubric, read from files beside it
Everything else is internal to this package.
"""
