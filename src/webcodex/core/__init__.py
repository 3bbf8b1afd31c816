"""What is decided: values in, values out; touches nothing."""
