"""LSTM, GRU and RNN over all their steps: what a cell computes, its tiles, its loops."""
