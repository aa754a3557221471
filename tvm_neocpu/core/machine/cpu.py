"""The machine a network is compiled for: only here are vector widths and cache sizes known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from tvm_neocpu.core.machine.dot import (
    ANY_WEIGHTS,
    PORTABLE,
    PORTABLE_2,
    PORTABLE_4,
    SIGNED_BYTES,
    DotProduct,
)
from tvm_neocpu.core.machine.half import HALVES
from tvm_neocpu.core.machine.look_up import LookUp
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.types import BF16_PRODUCTS, BF16_WEIGHTS, INTEGER_PRODUCTS, Types, item_bytes

KIB = 1024
MIB = 1024 * KIB
# A vector of fewer elements than this is no faster than they are one by one.
MIN_LANES = 4


@dataclass(frozen=True)
class Isa:
    """A vector instruction set: register width in bits, architectural registers."""

    name: str
    vector_bits: int
    vector_registers: int


# What two steps in a row want beside a tile whose products are added by themselves (Zen 3,
# vpmaddwd: tiles of 10 and 12 accumulators reach 69-79 % of the peak unrolled and 81-89 % rolled;
# tiles of 8 gain or lose 3 %).
SPARE_REGISTERS = 3

AVX512 = Isa("avx512", 512, 32)
AVX2 = Isa("avx2", 256, 16)
SSE = Isa("sse", 128, 16)
NEON = Isa("neon", 128, 32)


@dataclass(frozen=True)
class VectorUnit:
    """A CPU's vector registers for elements of one type.

    ``lanes``: elements in a register. ``registers``: how many there are. ``line``: elements of a
    cache line. ``narrow``: vectors of half the lanes that issue in the time of a whole one.
    """

    lanes: int
    registers: int
    line: int
    narrow: int = 1

    @property
    def full_rate_lanes(self) -> int:
        """The fewest lanes of a vector that leave nothing of the units idle."""
        return self.lanes // self.narrow

    @property
    def half_lanes(self) -> int:
        """Lanes of half a vector, where these are still faster than their elements one by one."""
        return max(MIN_LANES, self.lanes // 2)

    def registers_of(self, block: int) -> int:
        """Registers that a block of channels takes; a vector's length is a power of two.

        With 16 lanes 48 channels take 3 registers, and so do 12: in vectors of 4.
        """
        return block // min(block & -block, self.lanes)

    def issue_share(self, block: int) -> float:
        """What a vector of a block of channels takes of the issue time of a whole vector."""
        half = 2 * min(block & -block, self.lanes) <= self.lanes
        return 1 / self.narrow if half else 1.0

    def tile_registers(self, pixels: int, vectors: int, streamed: int = 1) -> int:
        """Registers that a register tile takes: accumulators, weight vectors, streamed inputs."""
        return pixels * vectors + vectors + streamed

    def holds_tile(self, pixels: int, vectors: int, streamed: int = 1) -> bool:
        """Whether the tile fits into the registers; else LLVM spills."""
        return self.spilled(pixels, vectors, streamed) == 0

    def spilled(self, pixels: int, vectors: int, streamed: int = 1) -> int:
        """Registers that the tile lacks."""
        return max(0, self.tile_registers(pixels, vectors, streamed) - self.registers)

    def spills_unrolled(self, pixels: int, vectors: int, temporaries: int = 0) -> bool:
        """Whether two steps in a row spill where one does not: LLVM loads their pixels first.

        A pixel of a tile of one vector is multiplied once, so that each has a register of its own.
        Products that are added by themselves (``temporaries``) are another crowd: two steps leave
        no register, and LLVM wants a few.
        """
        if vectors == 1 and 2 * pixels + 1 > self.registers:
            return True
        taken = self.tile_registers(pixels, vectors, 1 + temporaries)
        return temporaries > 0 and taken > self.registers - SPARE_REGISTERS

    @property
    def max_pixels(self) -> int:
        """Pixels of the largest register tile: it has one weight vector, one streamed input."""
        return self.registers - self.tile_registers(0, 1)


@cache
def _unit(vector_bits: int, registers: int, line: int, item: int, narrow: int) -> VectorUnit:
    return VectorUnit(vector_bits // (8 * item), registers, line // item, narrow)


@dataclass(frozen=True)
class Cpu:
    """What templates and the cost model may know of a machine; sizes in bytes.

    ``name`` is LLVM's CPU name (``-mcpu``) and keys the tuning log, with ``features``: the
    :func:`feature_hash` of what LLVM may use, empty if unknown. ``line`` is a cache line.
    ``fma_per_cycle`` counts vector FMA instructions, ``load_per_cycle`` vector loads. ``narrow``:
    how many of half the width issue in the time of a whole one: 2 where a whole vector takes both
    halves of a unit. Bandwidths are bytes per cycle and core; ``dram_total_bytes_per_cycle`` is
    what all cores together get from memory. ``fork_join``: seconds that a parallel region takes to
    begin and end; ``wake_up``: seconds until threads that sleep have joined in. ``dots``: the
    instructions that multiply integers or bf16, the fastest first. ``spare_registers``: vector
    registers that tiles leave to LLVM's scheduler, which loads pixels ahead for this core; it
    spills accumulators where it has none. ``halves``: the types of half precision whose vectors it
    widens to fp32. ``matrix``: its unit for products of whole tiles. ``look_up``: what finds bytes
    in a table. ``packs``: bits of the registers that it packs into bytes, 0 where LLVM is to.
    """

    name: str
    isa: Isa
    cores: int
    l1: int = 32 * KIB
    l2: int = 1 * MIB
    l3: int = 8 * MIB
    line: int = 64
    ghz: float = 2.5
    fma_per_cycle: int = 2
    load_per_cycle: int = 2
    fma_latency: int = 4
    narrow: int = 1
    l2_bytes_per_cycle: float = 32.0
    l3_bytes_per_cycle: float = 10.0
    dram_bytes_per_cycle: float = 4.0
    dram_total_bytes_per_cycle: float = 16.0
    fork_join: float = 2e-6
    wake_up: float = 2e-5
    features: str = ""
    dots: tuple[DotProduct, ...] = (PORTABLE_4, PORTABLE_2)
    spare_registers: int = 0
    halves: tuple[str, ...] = HALVES
    matrix: MatrixUnit | None = None
    look_up: LookUp | None = None
    packs: int = 0

    def unit(self, dtype: str) -> VectorUnit:
        """The vector registers that tiles may take, as they are for elements of one type."""
        registers = self.isa.vector_registers - self.spare_registers
        return _unit(self.isa.vector_bits, registers, self.line, item_bytes(dtype), self.narrow)

    def lanes(self, dtype: str) -> int:
        """Elements of that type in one vector register."""
        return self.unit(dtype).lanes

    def dot(self, types: Types, weight_bits: int = ANY_WEIGHTS) -> DotProduct:
        """The fastest instruction for integers of these types, with weights so small.

        Raises ValueError for types that are no integer product's.
        """
        found = next((dot for dot in self.dots if dot.multiplies(types, weight_bits)), None)
        if found is None:
            raise ValueError(f"{self.name} has no instruction for {types}")
        return found

    def dot_of(
        self,
        elements: int,
        words: int = 1,
        weight_bits: int = ANY_WEIGHTS,
        signed: bool = False,
    ) -> DotProduct:
        """The fastest instruction for words of so many elements, or plain arithmetic.

        One for each word, where none takes so many at once. ``signed``: of words of signed bytes.
        """
        known = [
            dot
            for dot in (*self.dots, *PORTABLE)
            if dot.accumulator == "int32"
            if dot.elements == elements and weight_bits <= dot.weight_bits
            if (dot.data == SIGNED_BYTES) == signed
        ]
        at_once = (dot for dot in known if dot.words == words)
        return next(at_once, None) or next(dot for dot in known if dot.words == 1)

    @property
    def bf16(self) -> DotProduct | None:
        """What multiplies pairs of bf16; ``None`` for a CPU without such an instruction."""
        return next((dot for dot in self.dots if dot.multiplies(BF16_WEIGHTS)), None)

    def multiplies_tiles(self, types: Types) -> bool:
        """Whether its matrix unit multiplies such types."""
        return self.matrix is not None and types in self.matrix.types

    def multiply_adds_per_cycle(self, types: str | Types) -> float:
        """Products that one core adds to accumulators in a cycle, of one type or a workload's."""
        if isinstance(types, str):
            return self.lanes(types) * self.fma_per_cycle
        issued = float(self.lanes(types.accumulator) * self.fma_per_cycle)
        if self.matrix is not None and types in self.matrix.types:
            return self.matrix.multiply_adds_per_cycle(types)
        if types in INTEGER_PRODUCTS:
            return issued * self.dot(types).products
        if types in BF16_PRODUCTS and self.bf16 is not None:
            # Weights may be widened for multiply-adds, too.
            return issued * max(1.0, self.bf16.products)
        return issued

    def peak_gflops(self, types: str | Types) -> float:
        """GFLOP/s of one core; a multiply-add counts as two, of integers too."""
        return 2.0 * self.multiply_adds_per_cycle(types) * self.ghz

    def with_cores(self, cores: int) -> Cpu:
        return replace(self, cores=cores)


def feature_hash(features: Iterable[str]) -> str:
    """Eight hexadecimal digits for a set of LLVM's feature names; empty for no names.

    A CPU's name alone does not say what code for it uses: a hypervisor hides features, ``-mattr``
    switches them.
    """
    names = ",".join(sorted(set(features)))
    return hashlib.sha256(names.encode()).hexdigest()[:8] if names else ""


def isa_of(features: frozenset[str]) -> Isa:
    """The widest vector ISA among LLVM's feature names (``avx512f``, ``avx2``, ``neon``...)."""
    if "avx512f" in features:
        return AVX512
    if "avx2" in features and "fma" in features:
        return AVX2
    if "neon" in features:
        return NEON
    return SSE


def packs_of(features: frozenset[str]) -> int:
    """The bits of registers that instructions pack into bytes, among LLVM's feature names."""
    if "avx512bw" in features:
        return AVX512.vector_bits
    return AVX2.vector_bits if "avx2" in features else 0
