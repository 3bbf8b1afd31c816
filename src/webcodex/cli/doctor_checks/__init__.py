"""What ``webcodex doctor`` looks at, one module for each area; none of it changes anything."""
