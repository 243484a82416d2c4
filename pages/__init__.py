"""The report's templates."""
