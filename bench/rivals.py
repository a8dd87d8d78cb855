"""Fusion plans by the rules of TVM and of DNNFusion, for `--fuse-plan`.

    python bench/rivals.py tvm|dnnf MODEL [OPTION…] > model.plan
    tenon compile MODEL --fuse-plan model.plan -o model.so

Input is what `tenon explain MODEL --fuse none --json` says of each nest before fusion: what it reads, how it maps its points to elements of
that (doc/fusion.md), and whether it reduces. Both rules group whole operators; several nests of one operator (softmax) count as one. A plan
says groups alone: Tenon inlines inside a group what it can, and splits a group that no kernel can compute.

Sources: Chen et al., TVM, OSDI 2018, and apache/tvm, src/relax/analysis/graph_partitioner.cc and tir_op_pattern_kind.cc; Niu et al.,
DNNFusion, PLDI 2021 (arXiv 2108.13342), sections 3 and 4.2. Where DNNFusion asks a profile, these rules fuse.
"""
import json
import os
import pathlib
import subprocess
import sys

TENON = os.environ.get("TENON", str(pathlib.Path(__file__).resolve().parents[1] / "build" / "tenon"))


class Dataflow:
    """Nests in topological order; operators made of them, each named by its last nest."""

    def __init__(self, nests: list[dict]):
        self.nests = nests
        self.maker = {made["value"]: i for i, nest in enumerate(nests) for made in nest["makes"]}
        self.readers = [[] for _ in nests]                       # (value, nest that reads it), in order
        for i, nest in enumerate(nests):
            for value in dict.fromkeys(nest["inputs"]):
                if value in self.maker:
                    self.readers[self.maker[value]].append((value, i))
        self.operator: list[int] = [-1] * len(nests)
        self.members: dict[int, list[int]] = {}
        for i in reversed(range(len(nests))):
            self.operator[i] = i if self.operator[i] < 0 else self.operator[i]
            self.members.setdefault(self.operator[i], []).insert(0, i)
            for value in nests[i]["inputs"]:
                before = self.maker.get(value)
                if before is not None and nests[i]["operator"] and nests[before]["operator"] == nests[i]["operator"] and self.operator[before] < 0:
                    self.operator[before] = self.operator[i]

    def uses(self, operator: int):
        """Each use of a value of an operator by another: (operator, does it have the value's shape?)."""
        for i in self.members[operator]:
            types = {made["value"]: made["type"] for made in self.nests[i]["makes"]}
            for made in types:
                for value, reader in self.readers[i]:
                    if value == made and self.operator[reader] != operator:
                        yield self.operator[reader], types[value] == self.nests[reader]["makes"][0]["type"]


# ---- TVM -------------------------------------------------------------------------------------------------------

ELEMENTWISE, BROADCAST, INJECTIVE, REDUCE, OUT_ELEMENTWISE, OPAQUE = 0, 1, 2, 3, 4, 8
MOST_JOINED = 256                        # nests of a group: FuseOps.max_depth


def tvm_class(nest: dict) -> int:
    maps = {read["mapping"] for read in nest["reads"]}
    if nest["reduces"]:
        return OUT_ELEMENTWISE if nest["contraction"] or nest["mixed"] else REDUCE
    if not nest["elementwise"]:
        return OPAQUE
    if maps - {"id", "bcast"}:
        return INJECTIVE
    return BROADCAST if maps == {"bcast"} else ELEMENTWISE


class Tvm:
    """Each operator hangs on its nearest post-dominator; an edge has the highest class on the way there. A contraction joins what it hangs on
    through elementwise work; elementwise and broadcast work joins up to one contraction; what only moves data joins in the second sweep."""

    def __init__(self, flow: Dataflow):
        self.flow = flow
        self.kind: dict[int, int] = {}
        self.size: dict[int, int] = {}
        for i, nest in enumerate(flow.nests):
            kind, u = tvm_class(nest), flow.operator[i]
            if u in self.kind:
                was = self.kind[u]
                kind = OPAQUE if OPAQUE in (kind, was) else OUT_ELEMENTWISE if max(kind, was) >= REDUCE else max(kind, was)
            self.kind[u] = kind
            self.size[u] = self.size.get(u, 0) + 1
        self.group = {u: u for u in flow.members}
        self.parent: dict[int, int | None] = {}
        self.depth: dict[int | None, int] = {}
        self.edge: dict[int, int] = {}
        for u in sorted(flow.members, reverse=True):
            self.hang(u)

    def hang(self, u: int) -> None:
        at, first, edge = None, True, ELEMENTWISE
        visible = any(self.flow.nests[i]["visible"] for i in self.flow.members[u])
        for reader, whole in [] if visible else self.flow.uses(u):
            kind = ELEMENTWISE if self.kind[reader] == BROADCAST and whole else self.kind[reader]
            edge = max(edge, kind)
            if first:
                at = reader
            else:
                at, edge = self.meet(at, reader, edge)
            first = False
        self.parent[u], self.edge[u] = at, OPAQUE if at is None else edge
        self.depth[u] = 1 if at is None else self.depth[at] + 1

    def meet(self, x, y, edge):
        while x != y:
            if x is None or y is None:
                return None, edge
            if self.depth[x] >= self.depth[y]:
                edge, x = max(edge, self.edge[x]), self.parent[x]
            else:
                edge, y = max(edge, self.edge[y]), self.parent[y]
        return x, edge

    def leader(self, u: int) -> int:
        while self.group[u] != u:
            u = self.group[u]
        return u

    def path(self, u: int, to: int, between: int, ends: set[int]) -> list[int] | None:
        """The operators behind u as far as `to`, which is the first, if all are of class at most `between`."""
        if self.kind[self.leader(to)] not in ends:
            return None
        found, seen = [to], {to}

        def push(at):
            for reader, _ in self.flow.uses(at):
                if reader not in seen:
                    seen.add(reader)
                    found.append(reader)
        push(u)
        at = 1
        while at < len(found):
            if self.kind[self.leader(found[at])] > between:
                return None
            push(found[at])
            at += 1
        return found

    def join(self, u: int, to: int) -> None:
        x, y = self.leader(u), self.leader(to)
        if x != y:
            self.group[x] = y
            self.size[y] += self.size[x]
            self.kind[y] = max(self.kind[x], self.kind[y])

    def sweep(self, phase: int) -> None:
        for u in sorted(self.flow.members):
            to, kind, found = self.parent[u], self.kind[u], None
            if to is None or kind == OPAQUE or self.leader(u) == self.leader(to) or self.size[self.leader(u)] + self.size[self.leader(to)] > MOST_JOINED:
                continue
            if kind == OUT_ELEMENTWISE:
                if phase == 0 and self.edge[u] == ELEMENTWISE:
                    found = self.path(u, to, BROADCAST, {ELEMENTWISE, BROADCAST})
            elif kind <= BROADCAST:
                if self.edge[u] <= INJECTIVE or self.edge[u] == REDUCE:
                    found = self.path(u, to, INJECTIVE, {ELEMENTWISE, BROADCAST, INJECTIVE, REDUCE, OUT_ELEMENTWISE})
            elif kind == INJECTIVE and phase == 1:
                found = self.path(u, to, INJECTIVE, {ELEMENTWISE, BROADCAST, INJECTIVE})
            for one in [*found, u] if found else []:
                self.join(one, to)


def tvm(nests: list[dict]) -> list[int]:
    """The group of each nest."""
    t = Tvm(Dataflow(nests))
    for phase in range(2):
        t.sweep(phase)
    return [t.leader(u) for u in t.flow.operator]


# ---- DNNFusion ---------------------------------------------------------------------------------------------------

ONE_ONE, REORGANIZE, SHUFFLE, ONE_MANY, MANY_MANY = range(5)
TYPE = {"id": ONE_ONE, "part": ONE_ONE, "perm": SHUFFLE, "relayout": REORGANIZE, "inj": SHUFFLE, "bcast": ONE_MANY, "repeat": ONE_MANY, "gather": ONE_MANY}


BOTH = {                                 # [first][second]: the type of both as one; None: they stay apart
    #            ONE_ONE     REORGANIZE  SHUFFLE     ONE_MANY   MANY_MANY
    ONE_ONE:    (ONE_ONE,    REORGANIZE, SHUFFLE,    ONE_MANY,  MANY_MANY),
    REORGANIZE: (REORGANIZE, REORGANIZE, REORGANIZE, ONE_MANY,  MANY_MANY),
    SHUFFLE:    (SHUFFLE,    SHUFFLE,    SHUFFLE,    ONE_MANY,  MANY_MANY),
    ONE_MANY:   (ONE_MANY,   ONE_MANY,   ONE_MANY,   ONE_MANY,  None),
    MANY_MANY:  (MANY_MANY,  MANY_MANY,  MANY_MANY,  MANY_MANY, None),
}


def dnnf_type(nest: dict) -> int:
    reads = [TYPE.get(read["mapping"], MANY_MANY) for read in nest["reads"] if not read["constant"]]
    return max([ONE_ONE if nest["elementwise"] else MANY_MANY, *reads])


class Dnnf:
    """Blocks grow from seeds, the one-to-one operator with the smallest result first: to all that read it, then to all that it reads."""

    def __init__(self, flow: Dataflow):
        self.flow = flow
        self.type: dict[int, int] = {}
        for i, nest in enumerate(flow.nests):
            u = flow.operator[i]
            self.type[u] = max(self.type.get(u, ONE_ONE), dnnf_type(nest))
        self.block: dict[int, int] = {}
        self.in_block: dict[int, list[int]] = {}

    def home(self, nest: int) -> int:
        u = self.flow.operator[nest]
        return self.block.get(u, u)

    def neighbours(self, of: int, readers: bool):
        for u in self.in_block.get(of, [of]):
            for i in self.flow.members[u]:
                if readers:
                    for made in self.flow.nests[i]["makes"]:
                        yield from (reader for value, reader in self.flow.readers[i] if value == made["value"])
                else:
                    yield from (self.flow.maker[value] for value in self.flow.nests[i]["inputs"] if value in self.flow.maker)

    def closes_cycle(self, x: int, y: int) -> bool:
        """Does a path lead from x to y through a third?"""
        seen, stack = {x}, []

        def push(of):
            for nest in self.neighbours(of, True):
                to = self.home(nest)
                if to not in seen:
                    seen.add(to)
                    stack.append(to)
        push(x)
        seen.discard(y)
        at = 0
        while at < len(stack):
            if stack[at] != y:
                push(stack[at])
            at += 1
        return y in seen

    def take(self, seed: int, u: int, behind: bool) -> bool:
        joint = BOTH[self.type[seed]][self.type[u]] if behind else BOTH[self.type[u]][self.type[seed]]
        if u in self.block or joint is None or (self.closes_cycle(seed, u) if behind else self.closes_cycle(u, seed)):
            return False
        self.block[u] = seed
        self.in_block[seed].insert(1, u)
        self.type[seed] = joint
        return True

    def grow(self, seed: int) -> None:
        self.block[seed], self.in_block[seed] = seed, [seed]
        for behind in (True, False):
            again = True
            while again:
                todo = [self.flow.operator[i] for i in self.neighbours(seed, behind) if self.flow.operator[i] not in self.block]
                again = any(self.take(seed, u, behind) for u in todo)

    def run(self) -> None:
        own, size = dict(self.type), {u: self.flow.nests[u]["bytes"] for u in self.flow.members}
        while seeds := [u for u in sorted(self.flow.members) if u not in self.block and own[u] == ONE_ONE]:
            self.grow(min(seeds, key=lambda u: size[u]))


def dnnf(nests: list[dict]) -> list[int]:
    """The group of each nest."""
    d = Dnnf(Dataflow(nests))
    d.run()
    return [d.home(i) for i in range(len(nests))]


# ---- plans -------------------------------------------------------------------------------------------------------

RULES = {"tvm": tvm, "dnnf": dnnf}


def quoted(name: str) -> str:
    return '%"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plan(told: dict, rule: str) -> str:
    """One graph's plan."""
    groups: dict[int, list[str]] = {}
    for nest, group in zip(told["nests_before"], RULES[rule](told["nests_before"])):
        groups.setdefault(group, []).append(quoted(nest["makes"][0]["value"]))
    return f"graph {quoted(told['graph'])[1:]} {{\n" + "".join(f"  group {{ {' '.join(names)} }}\n" for names in groups.values()) + "}\n"


def objects(text: str) -> list[dict]:
    """One JSON object for each graph."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        one, end = decoder.raw_decode(text)
        found.append(one)
        text = text[end:]
    return found


def plan_of(model, rule: str, *options) -> str:
    """The plan of a model, compiled with these options."""
    done = subprocess.run([TENON, "explain", model, "--fuse", "none", "--json", *map(str, options)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return "".join(plan(told, rule) for told in objects(done.stdout))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in RULES:
        sys.exit("usage: rivals.py tvm|dnnf MODEL [OPTION…] > FILE")
    try:
        print(plan_of(sys.argv[2], sys.argv[1], *sys.argv[3:]), end="")
    except RuntimeError as error:
        sys.exit(str(error))
