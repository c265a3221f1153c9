"""Measurements that can be repeated: `python -m benchmarks` lists them."""
