"""`shoal guess`: looks at a few pages of a site, and writes a TOML spider for a person to edit."""
