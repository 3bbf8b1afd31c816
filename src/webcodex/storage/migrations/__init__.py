"""The steps that bring a database to the present schema, run at start-up."""
