"""What a crawl shows of itself: counters, the live view, the end summary and the log."""
