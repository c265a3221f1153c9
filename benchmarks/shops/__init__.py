"""Fifty differently built shops from one file: price, currency and availability against the truth."""
