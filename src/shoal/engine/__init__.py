"""The path of a page, and the beat of the process that runs it."""
