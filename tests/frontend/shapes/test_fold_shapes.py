"""Shapes that a graph computes are constants before conversion, and everything else stays."""

from __future__ import annotations

import copy

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_text import check_like_peer, normal, parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend.shapes.fold_shapes import fold_shapes

IMAGE = "g (float[N,C,H,W] x) => (float[] y)"

# Chains as exporters write them.
CHAINS = {
    "pytorch: view(size(0), -1)": """
        s = Shape(x)
        zero = Constant<value_int = 0>()
        n = Gather<axis = 0>(s, zero)
        axes = Constant<value_ints = [0]>()
        n1 = Unsqueeze(n, axes)
        rest = Constant<value_ints = [-1]>()
        shape = Concat<axis = 0>(n1, rest)
        y = Reshape(x, shape)
    """,
    "pytorch: channel shuffle": """
        s = Shape(x)
        i0 = Constant<value_int = 0>()
        i1 = Constant<value_int = 1>()
        i2 = Constant<value_int = 2>()
        i3 = Constant<value_int = 3>()
        n = Gather(s, i0)
        c = Gather(s, i1)
        h = Gather(s, i2)
        w = Gather(s, i3)
        two = Constant<value = int64 {2}>()
        half = Div(c, two)
        cast = Cast<to = 7>(half)
        axes = Constant<value_ints = [0]>()
        n1 = Unsqueeze(n, axes)
        g1 = Constant<value_ints = [2]>()
        c1 = Unsqueeze(cast, axes)
        h1 = Unsqueeze(h, axes)
        w1 = Unsqueeze(w, axes)
        c2 = Unsqueeze(c, axes)
        five = Concat<axis = 0>(n1, g1, c1, h1, w1)
        split = Reshape(x, five)
        moved = Transpose<perm = [0, 2, 1, 3, 4]>(split)
        four = Concat<axis = 0>(n1, c2, h1, w1)
        y = Reshape(moved, four)
    """,
    "pytorch: interpolate to floor(size x scale)": """
        s = Shape(x)
        i2 = Constant<value_ints = [2]>()
        i4 = Constant<value_ints = [4]>()
        i0 = Constant<value_ints = [0]>()
        hw = Slice(s, i2, i4, i0)
        wide = Cast<to = 1>(hw)
        factor = Constant<value_float = 1.5>()
        scaled = Mul(wide, factor)
        down = Floor(scaled)
        size = Cast<to = 7>(down)
        nc = Slice(s, i0, i2, i0)
        sizes = Concat<axis = 0>(nc, size)
        y = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric",
                   nearest_mode = "floor">(x, , , sizes)
    """,
    "torchvision: a detector's image size": """
        s = Shape<start = 2>(x)
        hw = Cast<to = 1>(s)
        short = ReduceMin<keepdims = 0>(hw)
        inverse = Reciprocal(short)
        wanted = Constant<value = float {9.0}>()
        factor = Mul(inverse, wanted)
        scaled = Mul(hw, factor)
        size = Cast<to = 7>(scaled)
        nc = Shape<start = 0, end = 2>(x)
        sizes = Concat<axis = 0>(nc, size)
        y = Resize<mode = "linear">(x, , , sizes)
    """,
    "tensorflow: strided slices, packed": """
        s = Shape(x)
        as32 = Cast<to = 6>(s)
        a = Constant<value = int64[1] {0}>()
        b = Constant<value = int64[1] {1}>()
        first = Slice(as32, a, b, a)
        n = Squeeze(first, a)
        axes = Constant<value = int64[1] {0}>()
        n1 = Unsqueeze(n, axes)
        rest = Constant<value = int32[1] {-1}>()
        packed = Concat<axis = 0>(n1, rest)
        shape = Cast<to = 7>(packed)
        y = Reshape(x, shape)
    """,
    "positions: Range of a dimension, gathered": """
        s = Shape<start = 3>(x)
        axes = Constant<value_ints = [0]>()
        w = Squeeze(s, axes)
        start = Constant<value_int = 0>()
        step = Constant<value_int = 2>()
        every_other = Range(start, w, step)
        y = Gather<axis = 3>(x, every_other)
    """,
    "zeros of a computed shape": """
        s = Shape(x)
        same = Identity(s)
        zeros = ConstantOfShape<value = float[1] {0.5}>(same)
        y = Add(x, zeros)
    """,
    "a mean by the number of elements": """
        count = Size(x)
        wide = Cast<to = 1>(count)
        total = ReduceSum(x)
        y = Div(total, wide)
    """,
    "expand, and Where on a shape": """
        s = Shape(x)
        minus = Constant<value_ints = [1, -1, 1, -1]>()
        no = Constant<value_ints = [-1, -1, -1, -1]>()
        rank = Shape(minus)
        ones = ConstantOfShape<value = int64[1] {1}>(rank)
        is_free = Equal(minus, no)
        picked = Where(is_free, ones, s)
        small = ReduceMean<axes = [0, 1, 2, 3]>(x)
        y = Expand(small, picked)
    """,
}
CHAINS["a computed shape needs the type of a Reshape before"] = (
    CHAINS["pytorch: channel shuffle"].replace("y =", "z =")
    + "again = Shape(z)\n flat = ReduceProd<axes = [0]>(again)\n y = Reshape(z, flat)"
)


@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_that_computes_shapes(chain: str) -> None:
    check_like_peer(parsed(f"{IMAGE} {{{CHAINS[chain]}}}"), x=normal(2, 4, 6, 7))


def test_opset_9_as_paddle_writes_it() -> None:
    text = f"""{IMAGE} {{
        s = Shape(x)
        n = Slice<axes = [0], starts = [0], ends = [1]>(s)
        as32 = Cast<to = 6>(n)
        rest = Constant<value = int32[1] {{-1}}>()
        packed = Concat<axis = 0>(as32, rest)
        shape = Cast<to = 7>(packed)
        flat = Reshape(x, shape)
        y = Identity(flat)
    }}"""
    check_like_peer(parsed(text, opset=9), x=normal(2, 4, 3, 3))


def test_a_shape_may_be_an_output() -> None:
    text = """g (float[N,C] x) => (int64[2] s, float[N,C] y, int64 n) {
        s = Shape(x)
        y = Relu(x)
        n = Size(x)
    }"""
    check_like_peer(parsed(text), x=normal(3, 5))


def test_shapes_of_large_tensors_are_numbers() -> None:
    """A tensor that only its shape is asked of counts for nothing, however large it is."""
    model = parsed(
        """g (float[8,3,1500,1500] x) => (float[8,3,a,b] y) {
        s = Shape (x)
        sizes = Concat <axis=0> (s, s)
        target = Slice (sizes, begin, end)
        y = Resize (x, , , target)
    }""",
        begin=np.array([4]),
        end=np.array([8]),
    )
    graph = fold_shapes(model, {"x": (8, 3, 1500, 1500)}, 17)
    assert {node.op_type for node in graph.node} == {"Constant", "Resize"}


def test_a_shape_alone_may_be_the_output() -> None:
    check_like_peer(parsed("g (float[N,C] x) => (int64[2] s) { s = Shape(x) }"), x=normal(3, 5))


def branches(condition: str) -> onnx.ModelProto:
    """Two Ifs whose branches use the same names, and an outer tensor."""
    text = f"""g (float[N,C] x) => (float[] y) {{
        s = Shape(x)
        one = Constant<value_int = 1>()
        c = Gather(s, one)
        limit = Constant<value_int = 4>()
        is_wide = {condition}
        a = If (is_wide) <
            then_branch = wide () => (float[] out) {{ t = Relu(x)  out = Neg(t) }},
            else_branch = slim () => (float[] out) {{ t = Exp(x)  out = Neg(t) }}
        >
        y = If (is_wide) <
            then_branch = wide () => (float[] out) {{ t = Abs(a)  out = Add(t, x) }},
            else_branch = slim () => (float[] out) {{ out = Mul(a, x) }}
        >
    }}"""
    return parsed(text)


@pytest.mark.parametrize("condition", ["Greater(c, limit)", "Less(c, limit)"])
def test_an_if_with_a_known_condition_is_its_branch(condition: str) -> None:
    model = branches(condition)
    graph = fold_shapes(model, {"x": (2, 6)}, 17)
    assert "If" not in {node.op_type for node in graph.node}
    check_like_peer(model, x=normal(2, 6))


def test_the_branch_that_is_not_taken_may_have_any_operator() -> None:
    text = """g (float[N,C] x) => (float[] y) {
        yes = Constant<value = bool {1}>()
        y = If (yes) <
            then_branch = ours () => (float[] out) { out = Relu(x) },
            else_branch = other () => (float[] out) { out = NoSuchOperator(x) }
        >
    }"""
    relay.frontend.from_onnx(parsed(text), {"x": (2, 3)})


def test_what_follows_data_stays() -> None:
    """The shape of a NonZero is known at run time only."""
    text = """g (float[4] x) => (int64[1] n) {
        places = NonZero(x)
        n = Shape<start = 1>(places)
    }"""
    model = parsed(text)
    assert fold_shapes(model, {"x": (4,)}, 17) is model.graph


def test_a_network_that_computes_no_shape_is_not_touched(tiny_cnn: onnx.ModelProto) -> None:
    assert fold_shapes(tiny_cnn, {"data": (1, 8, 6, 6)}, 17) is tiny_cnn.graph


def test_the_users_model_is_not_changed_and_weights_are_shared() -> None:
    model = parsed(f"{IMAGE} {{{CHAINS['zeros of a computed shape']}}}", w=normal(300, 300))
    before = copy.deepcopy(model)
    graph = fold_shapes(model, {"x": (1, 2, 3, 4)}, 17)
    assert graph.initializer is model.graph.initializer
    assert model == before


def test_absurdly_large_results_are_refused() -> None:
    """A file of a few bytes must not make an array of gigabytes."""
    text = """g (float[N] x) => (float[M] y) {
        s = Constant<value = int64[1] {1000000000}>()
        zeros = ConstantOfShape(s)
        y = Add(x, zeros)
    }"""
    model = parsed(text)
    with pytest.raises(ModelFileError, match=r"a result of ConstantOfShape .* too large"):
        fold_shapes(model, {"x": (1,)}, 17)


def test_weights_that_stay_parameters_are_not_folded() -> None:
    model = parsed(
        "g (float[4] x) => (float[4] y) { z = Mul(w, w)  y = Add(x, z) }",
        w=normal(4),
    )
    assert fold_shapes(model, {"x": (4,)}, 17, keep_weights=True) is model.graph
    assert fold_shapes(model, {"x": (4,)}, 17) is not model.graph
    _, params = relay.frontend.from_onnx(model, freeze_params=False)
    assert list(params) == ["w"]


def test_what_onnx_cannot_infer_or_evaluate_stays() -> None:
    """A Reshape to a wrong size, a Gather out of bounds: the nodes stay as they are."""
    text = """g (float[N,C] x) => (float[] y, int64 z) {
        s = Shape(x)
        five = Constant<value_int = 5>()
        z = Gather(s, five)
        to = Constant<value_ints = [7]>()
        bad = Reshape(s, to)
        y = Reshape(x, bad)
    }"""
    graph = fold_shapes(parsed(text), {"x": (2, 3)}, 17)
    assert [node.op_type for node in graph.node if node.op_type != "Constant"] == [
        "Gather",
        "Reshape",
        "Reshape",
    ]


def test_constants_are_put_before_their_readers_in_nested_graphs_too() -> None:
    text = """g (float[N,C] x, bool yes) => (float[] y) {
        s = Shape(x)
        minus = Neg(s)
        shape = Abs(minus)
        y = If (yes) <
            then_branch = a () => (float[] out) { out = Reshape(x, shape) },
            else_branch = b () => (float[] out) { out = Relu(x) }
        >
    }"""
    graph = fold_shapes(parsed(text), {"x": (2, 3), "yes": ()}, 17)
    assert [(node.op_type, list(node.output)) for node in graph.node] == [
        ("Constant", ["shape"]),
        ("If", ["y"]),
    ]


def test_integer_division_truncates() -> None:
    numbers = numpy_helper.from_array(np.array([-7, 7, -8], "int64"), "n")
    two = numpy_helper.from_array(np.array([2], "int64"), "d")
    node = helper.make_node("Div", ["n", "d"], ["q"])
    out = helper.make_tensor_value_info("q", onnx.TensorProto.INT64, [3])
    graph = helper.make_graph([node], "g", [], [out], [numbers, two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (constant,) = fold_shapes(model, {}, 17).node
    assert numpy_helper.to_array(constant.attribute[0].t).tolist() == [-3, 3, -4]


BRANCHES = """g (float[N,C] x, bool yes) => (float[] y) {
    minus = Constant<value = int64[1] {-1}>()
    y = If (yes) <
        then_branch = a () => (float[] out) {
            s = Shape(x)
            zero = Constant<value_int = 0>()
            n = Gather(s, zero)
            axes = Constant<value_ints = [0]>()
            n1 = Unsqueeze(n, axes)
            shape = Concat<axis = 0>(n1, minus)
            out = Reshape(x, shape)
        },
        else_branch = b () => (float[] out) { out = Relu(x) }
    >
}"""


def test_branches_are_folded_where_they_are() -> None:
    """Of the node only a copy changes."""
    model = parsed(BRANCHES)
    (*_, branching) = fold_shapes(model, {"x": (2, 3), "yes": ()}, 17).node
    then, other = (entry.g for entry in branching.attribute)
    assert [node.op_type for node in then.node] == ["Constant", "Reshape"]
    assert numpy_helper.to_array(then.node[0].attribute[0].t).tolist() == [2, -1]
    assert [node.op_type for node in other.node] == ["Relu"]
    assert model.graph.node[1].attribute[0].g.node[0].op_type == "Shape"


@pytest.mark.parametrize("yes", [False, True])
def test_branches_that_compute_shapes(yes: bool) -> None:
    check_like_peer(parsed(BRANCHES), x=normal(2, 3), yes=np.array(yes))


def test_gathers_in_branches() -> None:
    """As voice detectors take the last of several results: what checks the index is dead code."""
    text = """g (float[2,3] x, int64 rate) => (float[] y) {
        one = Constant<value = int64[1] {1}>()
        rates = Reshape(rate, one)
        first = Constant<value_int = 0>()
        own = Gather<axis = 0>(rates, first)
        sixteen = Constant<value_int = 16000>()
        yes = Equal(own, sixteen)
        y = If (yes) <
            then_branch = a () => (float[] out) {
                e = Exp(x)
                row = Gather<axis = 0>(e, first)
                out = Neg(row)
            },
            else_branch = b () => (float[] out) {
                row = Gather<axis = 0>(x, first)
                out = Relu(row)
            }
        >
    }"""
    for rate in (16000, 8000):
        check_like_peer(parsed(text), x=normal(2, 3), rate=np.array(rate))
