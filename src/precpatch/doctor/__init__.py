"""Is this environment fit for the target, and what does an error mean."""
