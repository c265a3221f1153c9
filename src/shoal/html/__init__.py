"""From bytes to what a handler asks for: encodings, parsing within bounds, selectors, links, text."""
