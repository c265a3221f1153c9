"""The browser lane: pages opened in Chromium, which reaches the network through a gate of ours and in no other way."""
