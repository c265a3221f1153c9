"""What pages say about themselves for machines, read as it stands there."""
