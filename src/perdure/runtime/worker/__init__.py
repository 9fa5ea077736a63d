"""The worker's room: what happens to one attempt, from the task that was taken to the result that is reported."""
