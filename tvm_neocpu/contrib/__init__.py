"""Beside the compiler: networks to try it on, engines to compare with, reports, measurements.

model_zoo    networks by name, built as ONNX
peers        ONNX Runtime, OpenVINO, MNN and ncnn beside ours       `bench`
kernels      each kernel against the FMA peak; the machine itself   `bench kernels`, `calibrate`
plans        predicted against measured times of whole plans        `bench plan`
explain      why a build chooses what it chooses                    `explain`
provenance   where and when figures were taken
"""
