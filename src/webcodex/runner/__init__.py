"""The Runner process: holds projects; reads, edits and runs things there."""
