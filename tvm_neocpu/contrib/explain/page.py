def render(network): return ""
