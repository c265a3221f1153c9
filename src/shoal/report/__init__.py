"""A crawl as one HTML file that explains itself: no script, no request, nothing but the file."""
