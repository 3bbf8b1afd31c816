"""WebCodex keeps work on a code project continuous and honest across hosts."""
