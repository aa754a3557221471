"""Channels: how many a layer has, and where they lie."""
