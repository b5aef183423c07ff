"""Exports of instances: made, removed, imported."""
