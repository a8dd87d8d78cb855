/* The program of a page: frames of a graph, a memory chart, a profile. Data: page.c. */
"use strict";
const $ = (s) => document.querySelector(s), S = (i) => data.strings[i];
const escape = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const size = (b) => { let u = 0; for (; b >= 1000 && u < 4; u++) b /= 1024; return (u ? b.toFixed(1) : b) + " " + ["B", "KB", "MB", "GB", "TB"][u]; };
const count = (n) => { let u = 0; for (; n >= 1000 && u < 4; u++) n /= 1000; return (u ? n.toFixed(n < 10 ? 2 : 1) : n) + ["", " k", " M", " G", " T"][u]; };

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

const palette = { heavy: "#f2c9a1", reduce: "#bcd8c1", move: "#d9d4ec", light: "#ffffff", port: "#cfe0f2", group: "#fff3cf" };
const cy = cytoscape({
    container: $("#graph"), wheelSensitivity: 0.3, minZoom: 0.02, maxZoom: 3, hideEdgesOnViewport: true, textureOnViewport: true,
    style: [
        { selector: "node", style: { shape: "round-rectangle", width: "data(w)", height: "data(h)", label: "data(label)", "text-valign": "center", "text-wrap": "wrap",
            "font-size": 11, "background-color": "data(color)", "border-width": 1, "border-color": "#8a929e", color: "#20242b" } },
        { selector: "edge", style: { width: 1, "line-color": "#9aa2ae", "target-arrow-color": "#9aa2ae", "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "straight" } },
        { selector: ".hit", style: { "border-width": 3, "border-color": "#b3541e" } },
        { selector: ":selected", style: { "border-width": 3, "border-color": "#1d4f91" } },
    ],
});
let at = 0, open = new Set();

function visible(g) {
    const home = new Map();
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
        const lines = n.label.split("\n");
        n.w = 18 + 6.4 * Math.max(...lines.map((l) => l.length));
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
    const layout = frame.placed.get(key) ?? place(shown);
    frame.placed.set(key, layout);
    cy.batch(() => {
        cy.elements().remove();
        cy.add([...shown.nodes.map((n) => { const p = layout.node(n.id); return { data: { id: n.id, label: n.label, color: palette[n.kind], w: p.width, h: p.height }, position: { x: p.x, y: p.y } }; }),
                ...shown.edges.map(([a, b]) => ({ data: { source: a, target: b } }))]);
    });
    if (fit) start(), moved = false;
    $("#stage b").textContent = frame.name;
    $("#what").textContent = frame.what;
    $("#same").textContent = frame.same ? "this stage changed nothing" : "";
    overview(frame, g);
    find($("input[type=search]").value);
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

cy.on("tap", "node", (e) => {
    const id = e.target.id();
    if (id[0] !== "g") return tell(id);
    open.add(at + "." + id.slice(1));
    const old = e.target.renderedPosition(), first = model(data.frames[at]).groups[+id.slice(1)].members[0].id;
    draw(false);
    const now = cy.getElementById(first).renderedPosition();
    cy.panBy({ x: old.x - now.x, y: old.y - now.y });
});
cy.on("tap", (e) => { if (e.target === cy) overview(data.frames[at], model(data.frames[at])); });

/* ---- search ------------------------------------------------------------------------------------------------------ */

function find(words) {
    cy.nodes().removeClass("hit");
    if (!words) return [];
    const g = model(data.frames[at]), wanted = words.toLowerCase();
    const match = (n) => (n.label + " " + n.origin + " " + n.text).toLowerCase().includes(wanted);
    const hits = cy.nodes().filter((e) => e.id()[0] === "g" ? g.groups[+e.id().slice(1)].members.some(match) : match(g.nodes.find((n) => n.id === e.id())));
    hits.addClass("hit");
    return hits;
}
let turn = 0;
$("input[type=search]").addEventListener("input", (e) => { turn = 0; find(e.target.value); });
$("input[type=search]").addEventListener("keydown", (e) => {
    if (e.key !== "Enter") return;
    const hits = find(e.target.value);
    if (!hits.length) return;
    const hit = hits[turn++ % hits.length];
    cy.zoom(1);
    cy.center(hit);
    tell(hit.id());
});

/* ---- charts -------------------------------------------------------------------------------------------------------- */

const hue = (i) => `hsl(${(i * 137.5) % 360} 55% 72%)`;
function memoryChart() {
    const m = data.memory, W = 1000, H = 170, k = Math.max(m.kernels, 1), top = Math.max(m.arena, 1);
    const boxes = m.values.map(([name, type, offset, bytes, from, to], i) =>
        `<rect x="${(W * (from - 1) / k).toFixed(2)}" y="${(H * (1 - (offset + bytes) / top)).toFixed(2)}" width="${(W * (to - from + 1) / k).toFixed(2)}" height="${Math.max(H * bytes / top, 0.6).toFixed(2)}"
          fill="${hue(i)}" stroke="#fff" stroke-width=".4"><title>${escape(S(name))} ${escape(S(type))}\n${size(bytes)} at ${size(offset)}, kernels ${from} to ${to}</title></rect>`).join("");
    $("#chart").innerHTML = `<svg viewBox="0 0 ${W} ${H + 16}" preserveAspectRatio="none">${boxes}<line x1="0" x2="${W}" y1="${H}" y2="${H}" stroke="#8a929e"/></svg>`;
    return `${m.values.length} values in an arena of ${escape(/^\d+$/.test(m.symbolic) ? size(m.arena) : m.symbolic + " bytes")}; across: kernels 1 to ${m.kernels}, up: bytes`;
}
function timeChart() {
    const kernels = [...data.profile.kernels].sort((a, b) => b.ms - a.ms), most = kernels[0]?.ms || 1;
    $("#chart").innerHTML = `<table style="width:100%;border-collapse:collapse">${kernels.map((k) =>
        `<tr data-name="${escape(k.name)}"><td style="width:14rem">${escape(k.name)}</td><td><div style="height:.8rem;background:#f2c9a1;width:${(100 * k.ms / most).toFixed(1)}%"></div></td>
         <td style="width:17rem">${k.ms.toFixed(4)} ms, ${(100 * k.share).toFixed(1)} %, ${k.gflops.toFixed(1)} GFLOP/s</td></tr>`).join("")}</table>`;
    return `${kernels.length} kernels, ${data.profile.threads} thread(s), ${data.profile.median_ms.toFixed(3)} ms a run`;
}
function roofChart() {
    const points = data.profile.kernels.filter((k) => k.operations > 0 && k.bytes > 0 && k.gflops > 0).map((k) => ({ k, x: k.operations / k.bytes, y: k.gflops, roof: k.roof > 0 ? k.gflops / k.roof : 0 }));
    if (!points.length) { $("#chart").innerHTML = ""; return "no kernel computes"; }
    const box = $("#chart"), W = Math.max(box.clientWidth, 300), H = Math.max(box.clientHeight, 120);       /* pixels: text keeps its shape */
    const left = 60, under = 18, xs = points.map((p) => Math.log10(p.x)), ys = points.flatMap((p) => [p.y, p.roof].filter((y) => y > 0).map(Math.log10));
    const x0 = Math.min(...xs) - .2, x1 = Math.max(...xs) + .2, y0 = Math.min(...ys) - .2, y1 = Math.max(...ys) + .2;
    const X = (v) => (left + (W - left) * (Math.log10(v) - x0) / (x1 - x0)).toFixed(1), Y = (v) => ((H - under) * (y1 - Math.log10(v)) / (y1 - y0)).toFixed(1);
    const marks = (from, to) => {
        const all = [];
        for (let d = Math.floor(from); d <= to; d++) for (const m of to - from < 2 ? [1, 2, 5] : [1]) all.push(m * 10 ** d);
        return all.filter((v) => Math.log10(v) >= from && Math.log10(v) <= to);
    };
    const number = (v) => String(+v.toPrecision(2)), grid = 'stroke="#e3e6ea"', ink = 'fill="#667085" font-size="11"';
    const axes = marks(x0, x1).map((v) => `<line x1="${X(v)}" x2="${X(v)}" y1="0" y2="${H - under}" ${grid}/><text x="${X(v)}" y="${H - 4}" text-anchor="middle" ${ink}>${number(v)}</text>`)
        .concat(marks(y0, y1).map((v) => `<line x1="${left}" x2="${W}" y1="${Y(v)}" y2="${Y(v)}" ${grid}/><text x="${left - 6}" y="${+Y(v) + 4}" text-anchor="end" ${ink}>${number(v)}</text>`));
    /* each kernel has a roof of its own: how fast its bytes come depends on how many there are */
    const roofs = points.filter((p) => p.roof > 0).map((p) => `<path d="M${X(p.x)},${Y(p.y)}V${Y(p.roof)}" stroke="#e9c3ad"/><path d="M${+X(p.x) - 9},${Y(p.roof)}h18" stroke="#b3541e" stroke-width="2"/>`);
    const dots = points.map((p) => {
        const r = (2 + 8 * Math.sqrt(p.k.share)).toFixed(1), last = +X(p.x) > W - 120;
        const label = p.k.share < .05 ? "" : `<text x="${+X(p.x) + (last ? -1 : 1) * (+r + 4)}" y="${+Y(p.y) + 4}" ${last ? 'text-anchor="end"' : ""} font-size="11">${escape(p.k.name)}</text>`;
        return `<ellipse cx="${X(p.x)}" cy="${Y(p.y)}" rx="${r}" ry="${r}" fill="#1d4f91" fill-opacity=".55"><title>${escape(p.k.name)}: ${p.y.toFixed(1)} GFLOP/s at ${p.x.toFixed(2)} operations a byte; roof ${p.roof.toFixed(1)}</title></ellipse>${label}`;
    });
    box.innerHTML = `<svg viewBox="0 0 ${W} ${H}">${axes.join("")}${roofs.join("")}${dots.join("")}</svg>`;
    return `across: operations a byte (logarithmic), up: GFLOP/s (logarithmic); bars: the most ${escape(data.profile.machine ?? "the machine")} could do`;
}

/* ---- the beginning ---------------------------------------------------------------------------------------------------- */

const charts = [];
if (data.memory) charts.push(["memory", memoryChart]);
if (data.profile?.kernels) charts.push(["time", timeChart], ["roofline", roofChart]);
if (!charts.length) $("footer").style.display = "none";
function chart(i) {
    const note = charts[i][1]();
    $("nav").innerHTML = charts.map(([name], k) => `<button class="${k === i ? "on" : ""}" data-at="${k}">${name}</button>`).join("") + `<span>${note}</span>`;
}
$("nav").addEventListener("click", (e) => { if (e.target.dataset.at) chart(+e.target.dataset.at); });
$("#chart").addEventListener("click", (e) => {
    const name = e.target.closest("tr")?.dataset.name;
    if (name) { $("input[type=search]").value = name; find(name); }
});

document.title = data.title + " - Tenon";
$("h1").textContent = data.title;
const slider = $("#stage input");
slider.max = data.frames.length - 1;
slider.addEventListener("input", () => { at = +slider.value; draw(true); });
$("#fold").checked = data.frames[0].nodes.length > 60;
$("#fold").addEventListener("change", () => { open.clear(); draw(true); });
if (charts.length) chart(0);
const asked = new URLSearchParams(location.hash.slice(1));       /* page.html#stage=fuse&chart=roofline&search=conv */
at = Math.max(data.frames.findIndex((f) => f.name === asked.get("stage")), 0);
slider.value = at;
$("input[type=search]").value = asked.get("search") ?? "";
if (charts.some(([name]) => name === asked.get("chart"))) chart(charts.findIndex(([name]) => name === asked.get("chart")));
draw(true);
if (asked.get("node")) tell(asked.get("node"));
document.body.dataset.ready = Math.round(performance.now());
