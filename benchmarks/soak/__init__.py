"""A long crawl of a web that is partly hostile: does anything grow, does anybody starve, is anything lost?"""
