"""Random programs with control, in Tenon's text: branches, loops, functions that call themselves, sizes from data.

A program is made of values of four kinds: i, an i64[] from 0 to 3; b, a bool[]; m, an f32[1, 4]; v, an f32[…] of any length.
"""
import numpy as np

TYPE = {"i": "i64[]", "b": "bool[]", "m": "f32[1, 4]"}
DEPTH = 3                # of graphs inside each other


class Program:
    def __init__(self, seed):
        self.rng, self.count, self.function = np.random.default_rng(seed), 0, []
        self.text = ""
        for _ in range(int(self.rng.integers(0, 3))):
            self.write_function()
        inputs = [("n", "i"), ("k", "i"), ("x", "m"), ("y", "m"), ("u", "v"), ("w", "v")]
        have = [(f"%{name}", kind) for name, kind in inputs]
        body, have = self.body(have, 6, 0)
        body += f"%made = add({self.pick(have, 'm')}, {self.pick(have, 'm')})\n"        # an output that is no input
        outputs = [self.pick(have, "i"), "%made", self.pick(have, "v")]
        head = ", ".join(f"%{name}: {TYPE.get(kind, f'f32[{name}_n]')}" for name, kind in inputs)
        self.text += f"graph @main({head}) -> ({', '.join(outputs)}) {{\n{body}}}\n"

    def requests(self, count):
        r = np.random.default_rng(self.count)
        return [{"n": np.int64(r.integers(0, 4)), "k": np.int64(r.integers(0, 4)), "x": r.normal(size=(1, 4)).astype("f4"), "y": r.normal(size=(1, 4)).astype("f4"),
                 "u": r.normal(size=int(r.integers(1, 5))).astype("f4"), "w": r.normal(size=int(r.integers(1, 3))).astype("f4")} for _ in range(count)]

    def name(self, what="t"):
        self.count += 1
        return f"{what}{self.count}"

    def pick(self, have, kind):
        """The later, the likelier."""
        fit = [name for name, k in have if k == kind]
        return fit[-1 - int(len(fit) * self.rng.random() ** 2)]

    def numbers(self, *shape):
        return "[" + ", ".join(repr(float(np.float32(x))) for x in self.rng.normal(size=shape).ravel()) + "]"

    # ---- operators: lines, and the kind and the name of what they make --------------------------------------------------

    def op(self, have):
        t, c = f"%{self.name()}", f"%{self.name('c')}"
        i, b, m, v = (self.pick(have, kind) for kind in "ibmv")
        two = "%" + self.name()
        number = self.rng.integers(0, 4)
        lines, kind = [
            (f"{c}: f32[4, 4] = const {self.numbers(4, 4)}\n{two} = matmul({m}, {c})\n{t} = tanh({two})", "m"),
            (f"{t} = add({m}, {self.pick(have, 'm')})", "m"),
            (f"{two} = cast({i}) {{to = \"f32\"}}\n{t} = mul({m}, {two})", "m"),
            (f"{c}: f32[4, 4] = const {self.numbers(4, 4)}\n{two}c: i64[1] = const [1]\n{two} = reshape({i}, {two}c)\n{t} = gather({c}, {two}) {{axis = 0}}", "m"),
            (f"{c}: i64[1] = const [0]\n{two} = reduce_mean({v}, {c}) {{keepdims = 0}}\n{t} = add({m}, {two})", "m"),
            (f"{t} = tanh({v})", "v"),
            (f"{c}: i64[1] = const [-1]\n{two} = reshape({m}, {c})\n{t} = concat({v}, {two}) {{axis = 0}}", "v"),
            (f"{c}: i64[] = const [{number}]\n{two} = add({i}, {c})\n{c}m: i64[] = const [4]\n{t} = mod({two}, {c}m)", "i"),
            (f"{c}: i64[] = const [{number}]\n{t} = less({i}, {c})", "b"),
            (f"{t} = equal({i}, {self.pick(have, 'i')})", "b"),
            (f"{t} = not({b})", "b"),
            (f"{c}: i64[2] = const [0, 1]\n{two} = reduce_sum({m}, {c}) {{keepdims = 0}}\n{c}f: f32[] = const [0.0]\n{t} = less({two}, {c}f)", "b"),
            (f"{c}: i64[1] = const [1]\n{two} = reshape({i}, {c})\n{two}m = match({two}) new [{self.name('s')} to 3]\n"
             f"{c}a: i64[2] = const [0, 1]\n{two}s = reduce_sum({m}, {c}a) {{keepdims = 0}}\n{t} = expand({two}s, {two}m)", "v"),
        ][self.rng.integers(13)]
        return lines, [(t, kind)]

    # ---- control --------------------------------------------------------------------------------------------------------

    def given(self, have):
        """What a graph inside is given: some of each kind."""
        return list(dict.fromkeys(x for x in ([(self.pick(have, k), k) for k in "imv"] + [have[j] for j in self.rng.integers(0, len(have), 2)])))

    def graph(self, inputs, outputs, depth, first=(), extra=()):
        """@g(inputs) -> one value of each of these kinds, the names of `first` before them."""
        body, have = self.body(list(inputs) + list(extra), int(self.rng.integers(2, 5)), depth + 1)
        made = [self.pick(have, kind) for kind in outputs]
        names = ", ".join(name for name, _ in [*extra, *inputs])
        return f"graph @{self.name('g')}({names}) -> ({', '.join([*first, *made])}) {{\n{body}}}\n"

    def results(self, kinds):
        """Definitions, the symbols they need, and the values."""
        names, symbols = [f"%{self.name()}" for _ in kinds], []
        types = []
        for kind in kinds:
            if kind == "v":
                symbols.append(self.name("s"))
            types.append(TYPE.get(kind) or f"f32[{symbols[-1]}]")
        new = f" new [{', '.join(symbols)}]" if symbols else ""
        return names, types, new, list(zip(names, kinds))

    def branch(self, have, depth):
        kinds = [str(k) for k in self.rng.choice(list("imv"), 2)]
        names, types, new, made = self.results(kinds)
        inputs = self.given(have)
        arguments = ", ".join([self.pick(have, "b"), *(name for name, _ in inputs)])
        heads = ", ".join(f"{n}: {t}" for n, t in zip(names, types))
        return f"{heads} = if({arguments}){new}\n" + "".join(self.graph(inputs, kinds, depth) for _ in range(2)), made

    def loop(self, have, depth):
        """Carries one of each kind, stacks matrices; ends by its number of turns, and at times by what a turn computes."""
        names, types, new, made = self.results("imv")
        first = [(self.pick(have, k), k) for k in "imv"]
        inputs = [(f"%{self.name('a')}", k) for k in "imv"]
        turn, on = f"%{self.name('a')}", f"%{self.name('a')}"
        grown, turns, all_m = self.name("s"), self.name("s"), f"%{self.name()}"
        new = f" new [{new[6:-1]}, {turns}]"
        body, inner = self.body([*inputs, (turn, "i"), (on, "b")], int(self.rng.integers(2, 5)), depth + 1)
        again = self.pick(inner, "b") if self.rng.random() < 0.4 and any(n != on and k == "b" for n, k in inner) else on
        again = on if again == on else again
        carried = [self.pick(inner, k) for k in "imv"]
        heads = ", ".join(f"{n}: {t}" for n, t in zip(names, types))
        bound = f"{inputs[0][0]}: i64[], {inputs[1][0]}: f32[1, 4], {inputs[2][0]}: f32[{grown}]"
        text = (f"{heads}, {all_m}: f32[{turns}, 1, 4] = loop({self.pick(have, 'i')}, _, {', '.join(n for n, _ in first)}) carried 3{new}\n"
                f"graph @{self.name('g')}({turn}, {on}, {bound}) -> ({again}, {', '.join(carried)}, {self.pick(inner, 'm')}) {{\n{body}}}\n")
        flat, c = f"%{self.name()}", f"%{self.name('c')}"
        return text + f"{c}: i64[1] = const [-1]\n{flat} = reshape({all_m}, {c})\n", [*made, (flat, "v")]

    def call(self, have, depth):
        names, types, new, made = self.results("mv")
        arguments = ", ".join(self.pick(have, k) for k in "imv")
        heads = ", ".join(f"{n}: {t}" for n, t in zip(names, types))
        return f"{heads} = call @{self.rng.choice(self.function)}({arguments}){new}\n", made

    def body(self, have, count, depth):
        lines = []
        if not any(k == "b" for _, k in have):
            t, c = f"%{self.name()}", f"%{self.name('c')}"
            lines.append(f"{c}: i64[] = const [1]\n{t} = less({self.pick(have, 'i')}, {c})\n")
            have = [*have, (t, "b")]
        for _ in range(count):
            kind = self.rng.random() if depth < DEPTH else 0
            make = self.op if kind < 0.6 else self.branch if kind < 0.75 else self.loop if kind < 0.9 or not self.function else self.call
            text, made = make(have) if make == self.op else make(have, depth)
            lines.append(text if text.endswith("\n") else text + "\n")
            have = have + made
        return "".join(lines), have

    def write_function(self):
        """Calls itself as many times as its first argument says."""
        name = self.name("f")
        had, self.function = self.function, []
        base = self.graph([("%n", "i"), ("%x", "m"), ("%v", "v")], "mv", DEPTH - 1)
        inputs = [("%n", "i"), ("%x", "m"), ("%v", "v")]
        self.function = had
        before, have = self.body(inputs, 2, DEPTH - 1)
        a, b, s = self.name(), self.name(), self.name("s")
        inner = (f"graph @{self.name('g')}(%n, %x, %v) -> (%{a}o, %{b}) {{\n{before}%one: i64[] = const [1]\n%less = sub(%n, %one)\n"
                 f"%{a}: f32[1, 4], %{b}: f32[{s}] = call @{name}(%less, {self.pick(have, 'm')}, {self.pick(have, 'v')}) new [{s}]\n"
                 f"%{a}o = add(%{a}, {self.pick(have, 'm')})\n}}\n")
        m, r = self.name("s"), self.name("s")
        self.text += (f"graph @{name}(%n: i64[], %x: f32[1, 4], %v: f32[{m}]) -> (%y: f32[1, 4], %w: f32[{r}]) {{\n%zero: i64[] = const [0]\n"
                      f"%stop = equal(%n, %zero)\n%y: f32[1, 4], %w: f32[{r}] = if(%stop, %n, %x, %v) new [{r}]\n{base}{inner}}}\n")
        self.function = self.function + [name]
