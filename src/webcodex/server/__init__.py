"""The Server process: moves bytes between sockets and the tools."""
