"""What `import tvm_neocpu` does, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tvm
from tvm.relax import pipeline as relax_pipelines

import tvm_neocpu
from tvm_neocpu import plugin, relay


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_is_there() -> None:
    for name in tvm_neocpu.__all__:
        assert getattr(tvm_neocpu, name) is not None
        assert name in dir(tvm_neocpu)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tvm_neocpu.nothing  # noqa: B018


def test_installing_twice_changes_nothing() -> None:
    before = relax_pipelines.PIPELINE_MAP["neocpu"]
    plugin.install()
    assert relax_pipelines.PIPELINE_MAP["neocpu"] is before
    assert tvm.relay is relay
    assert sys.modules["tvm.relay"] is relay
    assert relay.__spec__ is not None and relay.__spec__.name == "tvm_neocpu.relay"


def test_a_tvm_with_relay_keeps_its_own() -> None:
    script = (
        "import sys, types; import tvm; own = types.ModuleType('tvm.relay');"
        "sys.modules['tvm.relay'] = tvm.relay = own; import tvm_neocpu; from tvm import relay;"
        "print(relay is own)"
    )
    assert run(script) == "True"


def test_the_classic_script_of_the_readme_imports() -> None:
    script = "import onnx, tvm; import tvm_neocpu; from tvm import relay; print(relay.build)"
    assert "build" in run(script)


@pytest.mark.parametrize(
    "first",
    [
        "import tvm_neocpu; from tvm import relay",
        "import tvm_neocpu, tvm; relay = tvm.relay",
        "import tvm, tvm_neocpu; relay = tvm.relay",
        "from tvm_neocpu import relay",
        "import tvm_neocpu; relay = tvm_neocpu.relay",
        "import tvm_neocpu.topi.table; from tvm import relay",
        "import tvm_neocpu.targets; import tvm.relay.frontend as f; from tvm import relay",
        "import tvm_neocpu.frontend.onnx_import, tvm.relay; relay = tvm.relay",
    ],
)
def test_every_order_of_imports_finds_relay(first: str) -> None:
    script = (
        f"{first}; import tvm.relay.frontend, tvm_neocpu.relay, tvm;"
        "print(relay is tvm.relay is tvm_neocpu.relay,"
        " tvm.relay.frontend is tvm_neocpu.relay.frontend,"
        " 'neocpu' in tvm.relax.pipeline.PIPELINE_MAP)"
    )
    assert run(script) == "True True True"


def test_importing_loads_nothing_heavy() -> None:
    script = (
        "import sys, tvm_neocpu;"
        "print([n for n in ('tvm', 'onnx', 'xgboost', 'scipy', 'onnxruntime') if n in sys.modules])"
    )
    assert run(script) == "[]"


def test_the_pipeline_is_registered_and_found_by_name() -> None:
    assert isinstance(relax_pipelines.get_pipeline("neocpu"), tvm.ir.transform.Pass)


def test_types_are_shipped() -> None:
    assert (Path(tvm_neocpu.__file__).parent / "py.typed").exists()


def test_the_pool_is_sized_on_import() -> None:
    script = (
        "import os; os.environ.pop('TVM_NUM_THREADS', None); os.environ.pop('OMP_NUM_THREADS', 0);"
        "import tvm_neocpu; from tvm_neocpu.core.machine.cores import physical_cores; import tvm;"
        "print(tvm.runtime.module.num_threads() == physical_cores())"
    )
    assert run(script) == "True"
