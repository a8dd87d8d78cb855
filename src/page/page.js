/* The program of a page: frames of a graph, a memory chart, a profile. Data: page.c. */
"use strict";
const $ = (s) => document.querySelector(s), S = (i) => data.strings[i];
const escape = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const size = (b) => { let u = 0; for (; b >= 1000 && u < 4; u++) b /= 1024; return (u ? b.toFixed(1) : b) + " " + ["B", "KB", "MB", "GB", "TB"][u]; };
const count = (n) => { let u = 0; for (; n >= 1000 && u < 4; u++) n /= 1000; return (u ? n.toFixed(n < 10 ? 2 : 1) : n) + ["", " k", " M", " G", " T"][u]; };
const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/* Text as wide as the browser draws it, and what of it fits in a width: its two ends. */
const pen = document.createElement("canvas").getContext("2d");
pen.font = "11px system-ui, sans-serif";
const wide = (s) => pen.measureText(s).width;
function short(s, most) {
    if (wide(s) <= most) return s;
    let n = s.length - 1;
    const ends = () => s.slice(0, Math.ceil(n / 3)) + "…" + s.slice(s.length - Math.floor(2 * n / 3));
    while (n > 2 && wide(ends()) > most) n--;
    return n > 2 ? ends() : "";
}

/* ---- frames: nodes and edges of each stage ------------------------------------------------------------------ */

data.frames.forEach((f, i) => { if (f.same) Object.assign(f, data.frames[i - 1], { name: f.name, what: f.what, same: true }); });
const work = new Map();              /* an operator's multiply-adds are those of the nest that came from it */
for (const f of data.frames) for (const n of f.nodes) if (n[3] >= 0 && !work.has(n[2])) work.set(n[2], n[3]);

function model(frame) {
    if (frame.graph) return frame.graph;
    const V = frame.values, maker = new Map();
    const nodes = frame.nodes.map(([label, text, origin, mul, ins, outs], i) => {
        const params = ins.filter((v) => v && V[v][3]);
        return { id: "n" + i, label: S(label), text: S(text), origin: S(origin), mul: mul >= 0 ? mul : work.get(origin) ?? -1, ins, outs,
                 params: params.reduce((sum, v) => sum + V[v][2], 0), kind: kindOf(S(label)) };
    });
    frame.inputs.forEach((v) => nodes.push({ id: "i" + v, label: S(V[v][0]), ins: [], outs: [v], text: "", origin: "input", mul: -1, params: 0, kind: "port" }));
    frame.outputs.forEach((v, k) => nodes.push({ id: "o" + k, label: S(V[v][0]), ins: [v], outs: [], text: "", origin: "output", mul: -1, params: 0, kind: "port" }));
    nodes.forEach((n) => n.outs.forEach((v) => maker.set(v, n)));
    const edges = [];
    nodes.forEach((n) => n.ins.forEach((v) => { const m = v && maker.get(v); if (m) edges.push([m.id, n.id, v]); }));
    return frame.graph = { nodes, edges, V, maker, groups: repeats(nodes) };
}

function kindOf(label) {
    if (/conv|matmul|gemm|product|attention/.test(label)) return "heavy";
    if (/pool|reduce|norm|softmax|sum|mean/.test(label)) return "reduce";
    if (/reshape|transpose|concat|split|slice|gather|pad|expand|copy|resize/.test(label)) return "move";
    return "light";
}

/* Repeated layers: runs of the same labels again and again, the longest first. A repetition is a group; what is
 * left over in long models, chains without branches, become groups as well. */
function repeats(nodes) {
    const words = nodes.filter((n) => n.kind !== "port"), groups = [], taken = new Set();
    const name = (n) => n.label.replace(/_\d+$/, "");
    const same = (i, j) => name(words[i]) === name(words[j]);
    for (let i = 0; i < words.length;) {
        let best = { covered: 0 };
        for (let p = 3; p <= 150 && i + 2 * p <= words.length; p++) {
            let n = 0;
            while (i + n + p < words.length && same(i + n, i + n + p)) n++;
            const times = 1 + Math.floor(n / p);
            if (times > 1 && times * p > best.covered) best = { covered: times * p, p, times };
        }
        if (best.covered < 6) { i++; continue; }
        for (let k = 0; k < best.times; k++) {
            const members = words.slice(i + k * best.p, i + (k + 1) * best.p);
            members.forEach((m) => taken.add(m.id));
            groups.push({ label: `layer ${k + 1} of ${best.times}\n${best.p} nodes`, members, of: `${i}` });
        }
        i += best.covered;
    }
    return groups;
}

/* ---- the drawing ---------------------------------------------------------------------------------------------- */

/* The colours are those of the page, light or dark. */
function paint() {
    const of = getComputedStyle(document.documentElement), color = (name) => of.getPropertyValue("--" + name).trim();
    return [
        { selector: "node", style: { shape: "round-rectangle", width: "data(w)", height: "data(h)", label: "data(label)", "text-valign": "center", "text-wrap": "wrap",
            "font-size": 11, "font-family": "system-ui, sans-serif", "border-width": 1, "border-color": color("wire"), color: color("ink") } },
        ...["heavy", "reduce", "move", "light", "port", "group"].map((kind) => ({ selector: `node[kind="${kind}"]`, style: { "background-color": color(kind) } })),
        { selector: "edge", style: { width: 1, "line-color": color("wire"), "target-arrow-color": color("wire"), "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "straight" } },
        { selector: ".hit", style: { "border-width": 3, "border-color": color("mark") } },
        { selector: ":selected", style: { "border-width": 3, "border-color": color("chosen") } },
    ];
}
const cy = cytoscape({ container: $("#graph"), wheelSensitivity: 0.3, minZoom: 0.02, maxZoom: 3, hideEdgesOnViewport: true, textureOnViewport: true, style: paint() });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(paint()));
let at = 0, open = new Set();
let home = new Map();               /* a node -> the collapsed group that it is drawn in */

function visible(g) {
    home = new Map();
    if ($("#fold").checked)
        g.groups.forEach((group, k) => { if (!open.has(at + "." + k)) group.members.forEach((m) => home.set(m.id, "g" + k)); });
    const nodes = [], seen = new Set(), edges = new Map();
    for (const n of g.nodes) {
        const id = home.get(n.id) ?? n.id;
        if (seen.has(id)) continue;
        seen.add(id);
        const group = id === n.id ? null : g.groups[+id.slice(1)];
        nodes.push({ id, label: group ? group.label : n.label, kind: group ? "group" : n.kind });
    }
    for (const [a, b] of g.edges) {
        const x = home.get(a) ?? a, y = home.get(b) ?? b;
        if (x !== y) edges.set(x + ">" + y, [x, y]);
    }
    return { nodes, edges: [...edges.values()] };
}

function place(shown) {
    const layout = new dagre.graphlib.Graph();
    layout.setGraph({ ranksep: 28, nodesep: 18, ranker: shown.nodes.length > 400 ? "longest-path" : "network-simplex" }).setDefaultEdgeLabel(() => ({}));
    for (const n of shown.nodes) {
        const lines = n.label.split("\n").map((line) => short(line, 260));
        n.label = lines.join("\n");
        n.w = 18 + Math.max(...lines.map(wide));
        n.h = 10 + 14 * lines.length;
        layout.setNode(n.id, { width: n.w, height: n.h });
    }
    shown.edges.forEach(([a, b]) => layout.setEdge(a, b));
    dagre.layout(layout);
    return layout;
}

function draw(fit) {
    const frame = data.frames[at], g = model(frame), shown = visible(g);
    const key = ($("#fold").checked ? 1 : 0) + [...open].filter((o) => o.startsWith(at + ".")).join();
    frame.placed ??= new Map();
    if (!frame.placed.has(key)) frame.placed.set(key, [shown.nodes, place(shown)]);
    const [nodes, layout] = frame.placed.get(key);
    cy.batch(() => {
        cy.elements().remove();
        cy.add([...nodes.map((n) => { const p = layout.node(n.id); return { data: { id: n.id, label: n.label, kind: n.kind, w: p.width, h: p.height }, position: { x: p.x, y: p.y } }; }),
                ...shown.edges.map(([a, b]) => ({ data: { source: a, target: b } }))]);
    });
    if (fit) start(), moved = false;
    $("#stages input").setAttribute("aria-valuetext", frame.name);
    document.querySelectorAll("#stages li").forEach((name, i) => name.classList.toggle("on", i === at));
    follow();
    $("#what").textContent = frame.what;
    $("#same").textContent = frame.same ? "this stage changed nothing" : "";
    overview(frame, g);
    find($("input[type=search]").value);
}

/* The stage's name in the middle of the strip, where the window is narrower than all names. */
function follow() {
    const strip = $("#stage");
    strip.scrollTo((at + 0.5) / data.frames.length * strip.scrollWidth - strip.clientWidth / 2, 0);
}

/* The whole graph where it can be read, else its beginning. */
function start() {
    cy.fit(undefined, 20);
    if (cy.zoom() > 1.2) cy.zoom(1.2), cy.center();
    if (cy.zoom() < 0.35) {
        const first = cy.nodes().min((n) => n.position("y")).ele;
        cy.zoom(0.8);
        cy.center(first);
        cy.panBy({ x: 0, y: 40 - cy.height() / 2 });
    }
}

/* A window that changes shows it anew, unless it was moved by hand. */
let moved = false;
cy.on("viewport", () => { moved = true; });
$("#zoom").addEventListener("click", (e) => {
    const by = e.target.dataset.zoom, middle = { x: cy.width() / 2, y: cy.height() / 2 };
    if (by === "0") cy.fit(undefined, 20);
    else if (by) cy.zoom({ level: cy.zoom() * (by > 0 ? 1.3 : 1 / 1.3), renderedPosition: middle });
});
new ResizeObserver(() => { const keep = moved; cy.resize(); if (!keep) start(), moved = false; }).observe($("#graph"));

/* ---- the side: what is selected -------------------------------------------------------------------------------- */

const row = (name, value) => `<tr><th>${name}</th><td>${value}</td></tr>`;
const valueText = (g, v) => v ? `<code>${escape(S(g.V[v][0]))}</code><br>${escape(S(g.V[v][1]))}${g.V[v][3] ? " constant" : ""}` : "absent";

function overview(frame, g) {
    const words = g.nodes.filter((n) => n.kind !== "port"), kinds = new Map(), constants = frame.values.filter((v) => v && v[3]);
    words.forEach((n) => { const k = n.label.replace(/_\d+$/, ""); kinds.set(k, (kinds.get(k) ?? 0) + 1); });
    const sum = (nodes) => nodes.reduce((s, n) => s + Math.max(n.mul ?? n[3], 0), 0);
    const mul = Math.max(sum(words), sum(data.frames.find((f) => f.nodes.some((n) => n[3] >= 0))?.nodes ?? []));
    $("aside").innerHTML = `<h2>${escape(data.title)}, after ${escape(frame.name)}</h2><table>` +
        row("nodes", words.length) + row("multiply-adds", mul ? count(mul) : "-") + row("constants", size(constants.reduce((s, v) => s + Math.max(v[2], 0), 0))) +
        frame.inputs.map((v) => row("input", valueText(g, v))).join("") + frame.outputs.map((v) => row("output", valueText(g, v))).join("") +
        `</table><h2>what there is</h2><table>${[...kinds].sort((a, b) => b[1] - a[1]).map(([k, n]) => row(n, escape(k))).join("")}</table>` +
        `<p style="color:var(--dim)">Sizes that are open count as 1. Click a node for its text, a layer to open it.</p>`;
}

/* Lines that are too long go on further in than they began. */
const lines = (text) => text.split("\n").map((l) => `<div style="padding-left:${l.search(/\S|$/) + 4}ch">${escape(l.trim())}\n</div>`).join("");

function tell(id) {
    const g = model(data.frames[at]);
    const n = g.nodes.find((n) => n.id === id);
    if (!n) return;
    const time = (data.profile?.kernels ?? []).find((k) => k.name === n.label && k.origin === n.origin);
    $("aside").innerHTML = `<h2>${escape(n.label)}</h2><table>` + row("from", escape(n.origin)) +
        (n.mul >= 0 ? row("multiply-adds", count(n.mul)) : "") + (n.params ? row("parameters", size(n.params)) : "") +
        (time ? row("time", `${time.ms.toFixed(4)} ms, ${(100 * time.share).toFixed(1)} % of a run`) : "") +
        n.ins.map((v, i) => row("in " + i, valueText(g, v))).join("") + n.outs.map((v, i) => row("out " + i, valueText(g, v))).join("") +
        `</table>${n.text ? `<pre>${lines(n.text.replace(/^ {2}/gm, "").trim())}</pre>` : ""}`;
}

function show(group) {
    open.add(at + "." + group.slice(1));
    draw(false);
}
cy.on("tap", "node", (e) => {
    const id = e.target.id();
    if (id[0] !== "g") return tell(id);
    const old = e.target.renderedPosition(), first = model(data.frames[at]).groups[+id.slice(1)].members[0].id;
    show(id);
    const now = cy.getElementById(first).renderedPosition();
    cy.panBy({ x: old.x - now.x, y: old.y - now.y });
});
cy.on("tap", (e) => { if (e.target === cy) overview(data.frames[at], model(data.frames[at])); });

/* ---- search ------------------------------------------------------------------------------------------------------ */

let hits = [], turn = -1;
function find(words) {
    const wanted = words.toLowerCase();
    hits = words ? model(data.frames[at]).nodes.filter((n) => (n.label + " " + n.origin + " " + n.text).toLowerCase().includes(wanted)) : [];
    turn = -1;
    mark();
    $("#hits").textContent = words ? many(hits.length, "hit") : "";
}
function mark() {
    cy.nodes().removeClass("hit");
    for (const n of hits) cy.getElementById(home.get(n.id) ?? n.id).addClass("hit");
}
/* A node in the middle of the picture; the group that holds it opens. */
function reveal(id) {
    if (home.has(id)) {
        const kept = [hits, turn];
        show(home.get(id));
        [hits, turn] = kept;
        mark();
    }
    const node = cy.getElementById(id);
    if (!node.length) return;
    cy.elements().unselect();
    node.select();
    cy.zoom(1);
    cy.center(node);
    tell(id);
}
function next(by) {
    if (!hits.length) return;
    turn = turn < 0 ? (by > 0 ? 0 : hits.length - 1) : (turn + by + hits.length) % hits.length;
    reveal(hits[turn].id);
    $("#hits").textContent = `${turn + 1} of ${many(hits.length, "hit")}`;
}
$("input[type=search]").addEventListener("input", (e) => find(e.target.value));
$("input[type=search]").addEventListener("keydown", (e) => { if (e.key === "Enter") next(e.shiftKey ? -1 : 1); });

/* ---- charts -------------------------------------------------------------------------------------------------------- */

const area = () => [Math.max($("#chart").clientWidth, 200), Math.max($("#chart").clientHeight, 100)];       /* pixels: text keeps its shape */
/* A block is named where its name fits, along it or upwards. */
function memoryChart() {
    const m = data.memory, [W, H] = area(), left = 62, under = 18, k = Math.max(m.kernels, 1), top = Math.max(m.arena, 1);
    const X = (kernel) => left + (W - left) * kernel / k, Y = (byte) => (H - under) * (1 - byte / top), px = (v) => v.toFixed(1);
    const blocks = m.values.map(([name, , offset, bytes, from, to], i) => {
        const x = X(from - 1), y = Y(offset + bytes), w = X(to) - x, h = Math.max(Y(offset) - y, 0.6), up = h > w, along = up ? h : w;
        const words = Math.min(w, h) < 12 ? "" : short(S(name).replace(/_output_\d+$/, ""), along - 6), turn = up ? ` transform="rotate(-90 ${px(x + w / 2)} ${px(y + h / 2)})"` : "";
        return `<g class="block" data-block="${i}"><rect x="${px(x)}" y="${px(y)}" width="${px(w)}" height="${px(h)}" style="fill:hsl(${(i * 137.5) % 360} 50% var(--tone))"/>` +
            (words ? `<text x="${px(x + w / 2)}" y="${px(y + h / 2 + 4)}" text-anchor="middle"${turn}>${escape(words)}</text>` : "") +
            `<title>${escape(S(name))}, ${size(bytes)}, ${kernelsOf(from, to)}</title></g>`;
    });
    const every = Math.max(1, Math.ceil(k * 40 / (W - left))), ticks = [];
    for (let i = 1; i <= k && (X(i - 1) + X(i) + wide("" + i)) / 2 < W; i += every) ticks.push(`<text x="${px((X(i - 1) + X(i)) / 2)}" y="${H - 4}" text-anchor="middle">${i}</text>`);
    $("#chart").innerHTML = `<svg width="${W}" height="${H}"><text x="${left - 6}" y="10" text-anchor="end">${size(m.arena)}</text><text x="${left - 6}" y="${H - under}" text-anchor="end">0</text>` +
        `${ticks.join("")}<line x1="${left}" x2="${W}" y1="${H - under}" y2="${H - under}" stroke="var(--wire)"/>${blocks.join("")}</svg>`;
    return `${many(m.values.length, "value")} in an arena of ${escape(/^\d+$/.test(m.symbolic) ? size(m.arena) : m.symbolic + " bytes")}; across: kernels 1 to ${m.kernels}, up: bytes`;
}
const kernelsOf = (from, to) => from === to ? `kernel ${from}` : `kernels ${from} to ${to}`;
function tellBlock(i) {
    const [name, type, offset, bytes, from, to] = data.memory.values[i];
    document.querySelectorAll("#chart .block").forEach((e) => e.classList.toggle("chosen", +e.dataset.block === i));
    $("aside").innerHTML = `<h2>%${escape(S(name))}</h2><table>` + row("type", escape(S(type))) + row("bytes", size(bytes)) + row("begins at", size(offset) + " of the arena") + row("lives in", kernelsOf(from, to)) + "</table>";
}
function timeChart() {
    const kernels = [...data.profile.kernels].sort((a, b) => b.ms - a.ms), most = kernels[0]?.ms || 1;
    $("#chart").innerHTML = `<table>${kernels.map((k) =>
        `<tr data-name="${escape(k.name)}"><td>${escape(k.name)}</td><td class="bar"><div style="width:${(100 * k.ms / most).toFixed(1)}%"></div></td>
         <td>${k.ms.toFixed(4)} ms, ${(100 * k.share).toFixed(1)} %, ${k.gflops.toFixed(1)} GFLOP/s</td></tr>`).join("")}</table>`;
    return `${many(kernels.length, "kernel")}, ${many(data.profile.threads, "thread")}, ${data.profile.median_ms.toFixed(3)} ms a run`;
}
function roofChart() {
    const points = data.profile.kernels.filter((k) => k.operations > 0 && k.bytes > 0 && k.gflops > 0).map((k) => ({ k, x: k.operations / k.bytes, y: k.gflops, roof: k.roof > 0 ? k.gflops / k.roof : 0 }));
    if (!points.length) { $("#chart").innerHTML = ""; return "no kernel computes"; }
    const [W, H] = area(), left = 60, under = 18, xs = points.map((p) => Math.log10(p.x)), ys = points.flatMap((p) => [p.y, p.roof].filter((y) => y > 0).map(Math.log10));
    const x0 = Math.min(...xs) - .2, x1 = Math.max(...xs) + .2, y0 = Math.min(...ys) - .2, y1 = Math.max(...ys) + .2;
    const X = (v) => (left + (W - left) * (Math.log10(v) - x0) / (x1 - x0)).toFixed(1), Y = (v) => ((H - under) * (y1 - Math.log10(v)) / (y1 - y0)).toFixed(1);
    const marks = (from, to) => {
        const all = [];
        for (let d = Math.floor(from); d <= to; d++) for (const m of to - from < 2 ? [1, 2, 5] : [1]) all.push(m * 10 ** d);
        return all.filter((v) => Math.log10(v) >= from && Math.log10(v) <= to);
    };
    const number = (v) => String(+v.toPrecision(2)), grid = 'stroke="var(--line)"';
    const axes = marks(x0, x1).map((v) => `<line x1="${X(v)}" x2="${X(v)}" y1="0" y2="${H - under}" ${grid}/><text x="${X(v)}" y="${H - 4}" text-anchor="middle">${number(v)}</text>`)
        .concat(marks(y0, y1).map((v) => `<line x1="${left}" x2="${W}" y1="${Y(v)}" y2="${Y(v)}" ${grid}/><text x="${left - 6}" y="${+Y(v) + 4}" text-anchor="end">${number(v)}</text>`));
    /* each kernel has a roof of its own: how fast its bytes come depends on how many there are */
    const roofs = points.filter((p) => p.roof > 0).map((p) => `<path d="M${X(p.x)},${Y(p.y)}V${Y(p.roof)}" stroke="var(--roof)"/><path d="M${+X(p.x) - 9},${Y(p.roof)}h18" stroke="var(--mark)" stroke-width="2"/>`);
    const dots = points.map((p) => ({ p, x: +X(p.x), y: +Y(p.y), r: 2 + 8 * Math.sqrt(p.k.share) })).sort((a, b) => b.p.k.share - a.p.k.share);
    /* the longest kernels are named first: right of the dot, left, above or below, where no dot and no name is */
    const taken = dots.map(({ x, y, r }) => [x - r, y - r, x + r, y + r]), free = ([a, b, c, d]) => a >= left && c <= W && b >= 0 && d <= H - under && !taken.some(([e, f, g, h]) => a < g && e < c && b < h && f < d);
    const names = dots.filter(({ p }) => p.k.share >= .02).map(({ p, x, y, r }) => {
        const w = wide(p.k.name), at = [[x + r + 3, y], [x - r - 3 - w, y], [x - w / 2, y - r - 8], [x - w / 2, y + r + 8]].find(([u, v]) => free([u, v - 7, u + w, v + 7]));
        if (!at) return "";
        taken.push([at[0], at[1] - 7, at[0] + w, at[1] + 7]);
        return `<text class="name" x="${at[0].toFixed(1)}" y="${(at[1] + 4).toFixed(1)}">${escape(p.k.name)}</text>`;
    });
    const drawn = dots.map(({ p, x, y, r }) => `<circle cx="${x}" cy="${y}" r="${r.toFixed(1)}" fill="var(--chosen)" fill-opacity=".55"><title>${escape(p.k.name)}: ${p.y.toFixed(1)} GFLOP/s at ${p.x.toFixed(2)} operations a byte; roof ${p.roof.toFixed(1)}</title></circle>`);
    $("#chart").innerHTML = `<svg width="${W}" height="${H}">${axes.join("")}${roofs.join("")}${drawn.join("")}${names.join("")}</svg>`;
    return `across: operations a byte (logarithmic), up: GFLOP/s (logarithmic); bars: the most ${escape(data.profile.machine ?? "the machine")} could do`;
}

/* ---- the beginning ---------------------------------------------------------------------------------------------------- */

const charts = [];
if (data.memory) charts.push(["memory", memoryChart]);
if (data.profile?.kernels) charts.push(["time", timeChart], ["roofline", roofChart]);
if (!charts.length) $("footer").style.display = "none";
let shown = 0;
function chart(i) {
    shown = i;
    $("nav").innerHTML = charts.map(([name], k) => `<button class="${k === i ? "on" : ""}" data-at="${k}">${name}</button>`).join("") + "<span></span>";
    const note = charts[i][1]();
    if ($("nav span").innerHTML !== note) $("nav span").innerHTML = note, charts[i][1]();       /* its lines take of the chart's height */
}
$("nav").addEventListener("click", (e) => { if (e.target.dataset.at) chart(+e.target.dataset.at); });
$("#chart").addEventListener("click", (e) => {
    const name = e.target.closest("tr")?.dataset.name, block = e.target.closest(".block")?.dataset.block;
    if (name) { $("input[type=search]").value = name; find(name); next(1); }
    if (block) tellBlock(+block);
});
let across = innerWidth;
addEventListener("resize", () => { follow(); if (charts.length && across !== innerWidth) across = innerWidth, chart(shown); });

document.title = data.title + " - Tenon";
$("h1").textContent = data.title;
const slider = $("#stages input");
slider.max = data.frames.length - 1;
slider.addEventListener("input", () => { at = +slider.value; draw(true); });
$("#stages").style.setProperty("--count", data.frames.length);
$("#stages ol").innerHTML = data.frames.map((f, i) => `<li data-at="${i}" class="${f.same ? "same" : ""}">${escape(f.name)}</li>`).join("");
$("#stages ol").addEventListener("click", (e) => { if (e.target.dataset.at) at = slider.value = +e.target.dataset.at, draw(true); });
$("#fold").checked = data.frames[0].nodes.length > 60;
$("#fold").addEventListener("change", () => { open.clear(); draw(true); });
if (charts.length) chart(0);
const asked = new URLSearchParams(location.hash.slice(1));       /* page.html#stage=fuse&chart=roofline&search=conv, or node=n3, or block=2 */
at = Math.max(data.frames.findIndex((f) => f.name === asked.get("stage")), 0);
slider.value = at;
$("input[type=search]").value = asked.get("search") ?? "";
if (charts.some(([name]) => name === asked.get("chart"))) chart(charts.findIndex(([name]) => name === asked.get("chart")));
draw(true);
if (asked.get("search")) next(1);
if (asked.get("node")) reveal(asked.get("node"));
if (asked.get("block")) tellBlock(+asked.get("block"));
document.body.dataset.ready = Math.round(performance.now());
