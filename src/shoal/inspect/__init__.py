"""What people ask about a store, and what they may decide: read models and actions."""
