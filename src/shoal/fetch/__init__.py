"""Getting pages: the transport protocol, HTTP, the guard of private networks, robots.txt."""
