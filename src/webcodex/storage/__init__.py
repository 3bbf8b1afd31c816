"""What is remembered: the database port, its engine and one module per aggregate."""
