"""Rows in PostgreSQL: one table for every kind of item, written so that writing again changes nothing."""
