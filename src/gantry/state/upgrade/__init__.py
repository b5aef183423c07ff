"""Configurations of Ganeti 2.0 to 3.1 become ours, when a master first opens them."""
