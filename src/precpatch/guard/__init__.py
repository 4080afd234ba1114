"""Run a command and stop or record at the first operation that the target cannot do."""
