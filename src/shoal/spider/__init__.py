"""What users write against: spiders, pages, requests, and how a handler is run."""
