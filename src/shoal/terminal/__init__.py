"""What is drawn in a terminal: tables, the live panel, the end summary."""
