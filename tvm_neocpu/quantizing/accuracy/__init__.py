"""How far a quantised network is from fp32, and which layers keep it within a bound."""
