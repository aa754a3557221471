"""Tuning on other machines, through TVM's RPC tracker and its servers.

tracker         who serves a key, and a session with one of them
linker          the compiler driver that links code for a target here
stamps          a network's functions with a clock reading around every call
remote_kernels  what was compiled and linked for servers, by what it computes
remote_network  one network on one server: run, or with every call timed in place
remote_machine  one session with a server: the tuner's slots, compiled here, run there
remote_workers  all servers at once; one that is lost costs its candidate
"""
