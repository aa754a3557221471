"""A tuning log as pictures: best so far over time, predicted against measured.

history  records -> curves and points, plain values
chart    axes, lines and points as SVG
page     one self-contained HTML page, or one SVG
"""
