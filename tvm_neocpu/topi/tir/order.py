"""The rewrites of scheduled code, in the one order that works.

Each takes a scheduled function of blocks and the :class:`Cpu`, and returns such a function.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.functions.cut_loops import narrow_indices
from tvm_neocpu.topi.tir.functions.group_trips import group_trips
from tvm_neocpu.topi.tir.functions.keep_rolled import plant_fake_uses
from tvm_neocpu.topi.tir.functions.outline_chunks import outline_chunks, outline_parallel
from tvm_neocpu.topi.tir.instructions.plant_bf16 import plant_bf16
from tvm_neocpu.topi.tir.instructions.plant_dots import plant_dots
from tvm_neocpu.topi.tir.instructions.plant_look_ups import plant_look_ups
from tvm_neocpu.topi.tir.instructions.plant_tiles import plant_tiles
from tvm_neocpu.topi.tir.instructions.round_and_saturate import round_and_saturate
from tvm_neocpu.topi.tir.instructions.scalar_calls import scalar_calls
from tvm_neocpu.topi.tir.instructions.store_singly import store_singly
from tvm_neocpu.topi.tir.instructions.transpose_tiles import transpose_tiles
from tvm_neocpu.topi.tir.instructions.widest_vectors import widest_vectors
from tvm_neocpu.topi.tir.prefetch.forget_requests import forget_requests
from tvm_neocpu.topi.tir.prefetch.group_requests import group_requests
from tvm_neocpu.topi.tir.prefetch.prefetch_epilogue import prefetch_epilogues
from tvm_neocpu.topi.tir.prefetch.prefetch_pixels import plant_pixel_requests
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import plant_prefetches
from tvm_neocpu.topi.tir.tiles.drop_tiles import drop_tiles
from tvm_neocpu.topi.tir.tiles.forget_locals import forget_locals
from tvm_neocpu.topi.tir.tiles.part_by_part import walk_parts
from tvm_neocpu.topi.tir.tiles.parts_by_address import parts_by_address
from tvm_neocpu.topi.tir.tiles.skip_padding import keep_padding, skip_padding
from tvm_neocpu.topi.tir.tiles.skip_parts import skip_parts
from tvm_neocpu.topi.tir.tiles.whole_vectors import whole_vectors

Rewrite = Callable[[tirx.PrimFunc, Cpu], tirx.PrimFunc]

# What a template scheduled.
TEMPLATE_REWRITES: tuple[Rewrite, ...] = (
    # Before chunks are outlined: tiles may be what runs in parallel.
    transpose_tiles,
    # Before all that look at the loops of a reduction.
    drop_tiles,
    skip_parts,
    skip_padding,
    # Before all that ask for what the tiles of a walk read next.
    walk_parts,
    # First of the three that prefetch: it looks for the marked reductions, whose bodies the others
    # fill with requests.
    prefetch_epilogues,
    # These two may swap. A later rewrite's requests stand first in a step; the second one removes
    # the marks that the epilogue's rewrite looks for.
    plant_pixel_requests,
    plant_prefetches,
    # Behind all that plant requests, and before the next one removes its marks.
    group_requests,
    plant_fake_uses,
    # Behind all that look at what a reduction reads; products of tiles are no products of words.
    plant_tiles,
    plant_dots,
    plant_bf16,
    round_and_saturate,
    plant_look_ups,
    scalar_calls,
    # Behind all that rewrite what is stored.
    store_singly,
    # After the prefetches: it wraps finished loop bodies, and nothing may be added to a chunk then.
    outline_chunks,
    # It turns blocks into what no ``Schedule`` reads any more, and clears what the outlined parts
    # allocate.
    forget_locals,
    # What it allocates need not be cleared, and TVM's passes before it see fewer statements.
    parts_by_address,
    # Behind all that look for equal vectors.
    widest_vectors,
    # Last: nobody else expects indices of two widths.
    narrow_indices,
)

# What the general rule scheduled: nothing is marked for prefetching, and serial loops are too short
# for a call.
GENERIC_REWRITES: tuple[Rewrite, ...] = (
    # Before vectors are made: it rewrites the value of an element.
    round_and_saturate,
    plant_look_ups,
    transpose_tiles,
    whole_vectors,
    # Behind all that makes vectors, these two: the second one counts what a trip stores.
    scalar_calls,
    group_trips,
    outline_parallel,
    forget_locals,
)

# A pool inside a fused group, whose trips the group shares out.
POOL_REWRITES: tuple[Rewrite, ...] = tuple(
    rewrite for rewrite in GENERIC_REWRITES if rewrite is not group_trips
)

# A layer inside a fused group: what it reads and writes stays in the caches, so that nothing asks
# for it, and the marks for requests go. Tiles are dropped before anything looks at loops; once more
# is nothing. Indices stay as wide as those of the group, whose loops run around the layer.
MEMBER_REWRITES: tuple[Rewrite, ...] = (
    drop_tiles,
    keep_padding,
    forget_requests,
    plant_fake_uses,
    scalar_calls,
    outline_parallel,
    forget_locals,
    parts_by_address,
)

# The first layer of a group, whose image and weights lie in memory.
FIRST_MEMBER_REWRITES: tuple[Rewrite, ...] = (
    drop_tiles,
    plant_pixel_requests,
    plant_prefetches,
    group_requests,
    *MEMBER_REWRITES,
)

# The last layer of a group, whose output and residual lie in memory.
LAST_MEMBER_REWRITES: tuple[Rewrite, ...] = (drop_tiles, prefetch_epilogues, *MEMBER_REWRITES)

# Further layers of a stack: only their weights lie in memory; of the last one also its output.
WEIGHTS_REWRITES: tuple[Rewrite, ...] = (
    drop_tiles,
    plant_prefetches,
    group_requests,
    *MEMBER_REWRITES,
)
LAST_WEIGHTS_REWRITES: tuple[Rewrite, ...] = (drop_tiles, prefetch_epilogues, *WEIGHTS_REWRITES)
