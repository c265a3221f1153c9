"""What a store keeps about jobs and workers besides the queue: notes, schedules, troubles, who leads."""
