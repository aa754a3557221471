"""Groups of layers in the layout problem: a node for each, beside the nodes of its members.

Candidate 0 of a group's node is "apart", which costs nothing. Each other one costs minus what it
gains, and goes with just one config of each member. Chains that overlap are candidates of one node,
so that a layer is in one group at most: a member that a candidate leaves out takes any config.

    depthwise -- [group] -- 1x1         group: apart | 24c, 2 rows | 16c, 7 rows | ..
        \\--------------------/          an edge forbids "24c, 2 rows" where a member takes 16c
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layer_group import Bands, GroupNode, LayerGroup
from tvm_neocpu.global_search.problem.layout_problem import Costs

APART = 0


def group_costs(node: GroupNode) -> Costs:
    """The costs of a group's node, in seconds."""
    return np.array([0.0, *(-candidate.gain for candidate in node.candidates)])


def member_costs(
    node: GroupNode, configs: Mapping[str, Sequence[Config | None]]
) -> Iterator[tuple[str, Costs]]:
    """For each member the costs of the edge to the group's node; ``configs`` are its options'."""
    for place, member in enumerate(node.members):
        wanted = [candidate.configs[place] for candidate in node.candidates]
        rows = [
            [0.0, *(0.0 if want in (None, config) else np.inf for want in wanted)]
            for config in configs[member]
        ]
        yield member, np.array(rows)


def chosen_groups(groups: Sequence[GroupNode], choice: Sequence[int]) -> tuple[LayerGroup, ...]:
    """The groups that a choice for their nodes means."""
    return tuple(
        LayerGroup(found.members_of(node.members), found.rows, found.run)
        for node, taken in zip(groups, choice, strict=True)
        if taken != APART
        for found in [node.candidates[taken - 1]]
    )


def planned_choice(node: GroupNode, planned: Mapping[tuple[str, ...], Bands]) -> list[bool]:
    """Which candidates of a group's node a plan follows: ``planned`` are its bands by members.

    The configs of the members say which of several candidates of the same bands it is. A group of
    the plan whose members are all of this node and that is none of its candidates leaves nothing.
    """
    own = [members for members in planned if set(members) <= set(node.members)]
    follows = [
        planned.get(candidate.members_of(node.members)) == Bands(candidate.rows, candidate.run)
        for candidate in node.candidates
    ]
    return [not own, *follows]
