"""Networks scheduled for people: an ONNX model as a ScheduleGraph, and reports of its schedules.

scheduling/                            orders, memory, partitions and profilers: no TVM, no ONNX
contrib/schedule/onnx_graph.py         a model as a ScheduleGraph
contrib/schedule/operators.py          what ONNX's operators are to a scheduler
contrib/schedule/experiment.py         all partitioners and all orders on one machine
contrib/schedule/{table,page,as_json}  what came out, drawn
commands/schedule.py                   the command line
schedule.py                            the door: python -m tvm_neocpu.schedule
"""
