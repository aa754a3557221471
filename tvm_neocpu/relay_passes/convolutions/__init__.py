"""Convolutions written as cheaper ones, and as the products that they are."""
