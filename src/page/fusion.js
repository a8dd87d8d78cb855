/* The program of a page of what was fused: kernels with their operators, and between them the values that go through memory, each with the
 * reason why its two kernels are not one. Data: what `tenon explain --json` prints, a graph each. */
"use strict";
const $ = (s) => document.querySelector(s);
const escape = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const size = (b) => { let u = 0; for (; b >= 1000 && u < 4; u++) b /= 1024; return (u ? b.toFixed(b < 10 ? 1 : 0) : b) + " " + ["B", "KB", "MB", "GB", "TB"][u]; };
const time = (s, digits = 3) => { const [v, u] = s >= 1 ? [s, "s"] : s >= 1e-3 ? [s * 1e3, "ms"] : s >= 1e-6 || !s ? [s * 1e6, "µs"] : [s * 1e9, "ns"]; return (v >= 100 ? v.toFixed(digits - 3) : v.toPrecision(digits)) + " " + u; };
const pen = document.createElement("canvas").getContext("2d");
const wide = (s, weight = 400) => (pen.font = `${weight} 11px system-ui, sans-serif`, pen.measureText(s).width);        /* as the browser draws it */
const meaning = {
    order: "a third kernel reads the first, and the second reads its result: one kernel would depend on itself",
    pair: "no kernel computes both: two products or windows, or parts that share no rows",
    visible: "the value is an output of the model as well",
    capacity: "too many nests, parts or instructions, or too long a row",
    unproven: "read at places known only when it runs",
    cost: "together they take longer, by the prices of both ways",
    rival: "together they take less, but kernels that want one of them gain more",
    user: "an option or a plan says so",
};

/* ---- the data ------------------------------------------------------------------------------------------------- */

const orders = new Map([...data.orders.matchAll(/^; %(.+): ([a-z]+|[0-9](?:,[0-9])+)$/gm)].map((m) => [m[1].replace(/^"(.*)"$/, "$1"), m[2]]));
const operatorsOf = (origin) => origin.split(/(?<=") \+ /);
/* A kernel of the artefact is the one of the plan with whose operators it ends: views stand before them. A transform domain makes several of one. */
const measured = new Map();
for (const k of data.profile?.each ?? []) { const last = operatorsOf(k.origin).pop(); measured.set(last, (measured.get(last) ?? 0) + k.ms / 1e3); }

function kindOf(operators) {
    const words = operators.map((o) => o.split(" ")[0].toLowerCase()).join(" ");
    if (/conv|matmul|gemm|einsum|attention|lstm|gru/.test(words)) return "heavy";
    if (/pool|reduce|norm|softmax|sum|mean|argm/.test(words)) return "reduce";
    if (operators.every((o) => /^(reshape|transpose|concat|split|slice|gather|pad|expand|resize|flatten|squeeze|unsqueeze|identity|cast)/i.test(o))) return "move";
    return "light";
}

for (const g of data.graphs) {
    g.kernel = new Map(g.groups.map((k) => [k.kernel, k]));
    const all = g.groups.reduce((sum, k) => sum + k.seconds, 0), most = Math.max(...g.groups.map((k) => k.seconds), 1e-12);
    for (const k of g.groups) k.operators = k.operators.flatMap(operatorsOf);        /* what a rule made of several is several */
    for (const k of g.groups) Object.assign(k, { kind: kindOf(k.operators), share: k.seconds / all, height: k.seconds / most, measured: measured.get(k.operators[k.operators.length - 1]) });
    g.predicted = all;
    g.saved = g.groups.reduce((sum, k) => sum + k.saved_bytes, 0);
    g.known = g.groups.filter((k) => k.measured !== undefined);
}
let g = data.graphs.reduce((most, x) => x.nests > most.nests ? x : most, data.graphs[0]);

/* ---- the drawing ------------------------------------------------------------------------------------------------ */

const LINE = 15, MOST_LINES = 9;
const short = (s, n) => s.length > n ? s.slice(0, 8) + "…" + s.slice(s.length - n + 9) : s;

/* An operator as two words: what it is, and its name in the model. */
function operatorOf(label) {
    const m = label.match(/^(\S+) "(.*)"$/s);
    return m ? [m[1], short(m[2], 34)] : [short(label, 40), ""];
}

function linesOf(k) {
    const lines = k.operators.map(operatorOf);
    return lines.length > MOST_LINES ? [...lines.slice(0, MOST_LINES - 1), [`and ${lines.length - MOST_LINES + 1} more`, ""]] : lines;
}

/* Conv + Sigmoid + Mul, and where: for a list. */
function wordsOf(k) {
    const last = operatorOf(k.operators[k.operators.length - 1])[1];
    return `${escape(short(k.operators.map((o) => operatorOf(o)[0]).join(" + "), 60))} <span class="dim">${escape(last)}</span>`;
}

function headOf(k) {
    return `${k.kernel} · ${time(k.seconds)}` + (k.measured === undefined ? "" : ` · measured ${time(k.measured)}`);
}

function place() {
    const layout = new dagre.graphlib.Graph({ multigraph: true });
    layout.setGraph({ ranksep: 26, nodesep: 26, edgesep: 14, marginx: 16, marginy: 16, ranker: g.groups.length > 400 ? "longest-path" : "network-simplex" }).setDefaultEdgeLabel(() => ({}));
    for (const k of g.groups) {
        const lines = linesOf(k), most = Math.max(wide(headOf(k), 600), ...lines.map(([a, b]) => wide(a + " " + b)));
        layout.setNode("k" + k.kernel, { width: 20 + most, height: 16 + LINE * (1 + lines.length), kernel: k, lines });
    }
    g.ports.forEach((p, i) => {
        const id = (p.way === "in" ? "i:" : "o:") + p.value;
        layout.setNode(id, { width: 24 + wide(short(p.value, 40)), height: 24, port: p });
        layout.setEdge(...(p.way === "in" ? [id, "k" + p.kernel] : ["k" + p.kernel, id]), { label: size(p.bytes), width: 8 + wide(size(p.bytes)), height: 14, labelpos: "c" }, "p" + i);
    });
    g.apart.forEach((p, i) => {
        if (!g.kernel.has(p.from) || !g.kernel.has(p.to)) return;
        const order = orders.get(p.value), label = size(p.bytes) + (order ? " " + order : "");
        layout.setEdge("k" + p.from, "k" + p.to, { label, pair: i, width: 8 + wide(label), height: 14, labelpos: "c" }, "e" + i);
    });
    dagre.layout(layout);
    return layout;
}

function curve(points) {
    let d = `M${points[0].x.toFixed(1)},${points[0].y.toFixed(1)}`;
    for (let i = 1; i + 1 < points.length; i++) {
        const mid = { x: (points[i].x + points[i + 1].x) / 2, y: (points[i].y + points[i + 1].y) / 2 };
        d += `Q${points[i].x.toFixed(1)},${points[i].y.toFixed(1)} ${mid.x.toFixed(1)},${mid.y.toFixed(1)}`;
    }
    const last = points[points.length - 1];
    return d + `L${last.x.toFixed(1)},${last.y.toFixed(1)}`;
}

function draw() {
    const layout = g.layout ??= place(), { width, height } = layout.graph();
    const edges = layout.edges().map((e) => {
        const edge = layout.edge(e), pair = g.apart[edge.pair], color = pair ? `var(--${pair.reason})` : "var(--wire)";
        const d = curve(edge.points), thick = pair ? Math.min(1 + Math.log10(1 + pair.bytes / 1e4), 4).toFixed(1) : 1;
        return `<g class="edge" ${pair ? `data-pair="${edge.pair}" data-reason="${pair.reason}"` : ""}><path class="wire" d="${d}" stroke="${color}" stroke-width="${thick}" marker-end="url(#tip)"/>` +
            `<path class="wide" d="${d}"/><rect x="${(edge.x - edge.width / 2 + 2).toFixed(1)}" y="${(edge.y - 7).toFixed(1)}" width="${(edge.width - 4).toFixed(1)}" height="14" fill="var(--soft)"/>` +
            `<text x="${edge.x.toFixed(1)}" y="${(edge.y + 4).toFixed(1)}" text-anchor="middle">${escape(edge.label)}</text>` +
            (pair ? `<title>%${escape(pair.value)}, ${size(pair.bytes)}\n${pair.reason}: ${escape(pair.text)}</title>` : "") + "</g>";
    });
    const nodes = layout.nodes().map((id) => {
        const n = layout.node(id), x = n.x - n.width / 2, y = n.y - n.height / 2, k = n.kernel;
        if (!k)
            return `<g><rect class="port" x="${x}" y="${y}" width="${n.width}" height="${n.height}" rx="11" fill="var(--port)"/><text x="${n.x}" y="${n.y + 4}" text-anchor="middle">${escape(short(n.port.value, 40))}</text></g>`;
        const lines = n.lines.map(([a, b], i) => `<text x="${(x + 9).toFixed(1)}" y="${(y + 31 + LINE * i).toFixed(1)}">${escape(a)} <tspan class="name">${escape(b)}</tspan></text>`);
        return `<g class="kernel" data-kernel="${k.kernel}"><rect class="box" x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${n.width.toFixed(1)}" height="${n.height.toFixed(1)}" rx="5" fill="var(--${k.kind})"/>` +
            `<rect class="share" x="${(x + 2).toFixed(1)}" y="${(y + n.height - 4).toFixed(1)}" width="${(k.height * (n.width - 4)).toFixed(1)}" height="2.5" rx="1"/>` +
            `<text class="head" x="${(x + 9).toFixed(1)}" y="${(y + 16).toFixed(1)}">${headOf(k)}</text>${lines.join("")}</g>`;
    });
    $("#graph").innerHTML = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
        markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0L8,4L0,8z" fill="var(--wire)"/></marker></defs>${edges.join("")}${nodes.join("")}</svg>`;
}

let zoom = 1;
function scale(to, keep) {
    const box = $("#graph"), svg = $("svg"), { width, height } = g.layout.graph();
    const x = (box.scrollLeft + box.clientWidth / 2) / Math.max(box.scrollWidth, 1), y = (box.scrollTop + box.clientHeight / 2) / Math.max(box.scrollHeight, 1);
    zoom = Math.min(Math.max(to, 0.01), 3);
    svg.setAttribute("width", width * zoom);
    svg.setAttribute("height", height * zoom);
    if (keep) box.scrollTo(x * box.scrollWidth - box.clientWidth / 2, y * box.scrollHeight - box.clientHeight / 2);
}
/* As large as can be read; all of it where that is large enough, else from the first kernel on. */
function fit() {
    const box = $("#graph"), { width, height } = g.layout.graph();
    const whole = Math.min(box.clientWidth / width, box.clientHeight / height), across = box.clientWidth / width;
    scale(Math.min(Math.max(whole, Math.min(across, 0.9), 0.6), 1.2));
    box.scrollTo(g.layout.node("k" + g.groups[0].kernel).x * zoom - box.clientWidth / 2, 0);
}
function whole() {
    const box = $("#graph"), { width, height } = g.layout.graph();
    scale(Math.min(box.clientWidth / width, box.clientHeight / height, 1.2));
}
/* A window that changes shows it anew, unless it was moved by hand. */
let last = fit;
new ResizeObserver(() => last?.()).observe($("#graph"));
$("header").addEventListener("click", (e) => {
    const by = e.target.dataset.zoom;
    if (by === "0") (last = whole)();
    else if (by) last = null, scale(zoom * (by > 0 ? 1.3 : 1 / 1.3), true);
});
$("#graph").addEventListener("wheel", (e) => { last = null; if (e.ctrlKey) { e.preventDefault(); scale(zoom * Math.exp(-e.deltaY / 300), true); } }, { passive: false });
let drag = null;
$("#graph").addEventListener("pointerdown", (e) => { last = null; drag = { x: e.clientX, y: e.clientY, left: $("#graph").scrollLeft, top: $("#graph").scrollTop }; });
$("#graph").addEventListener("pointermove", (e) => { if (drag && e.buttons && e.pointerType === "mouse") $("#graph").scrollTo(drag.left + drag.x - e.clientX, drag.top + drag.y - e.clientY); });
addEventListener("pointerup", () => { drag = null; });

/* ---- what is told ---------------------------------------------------------------------------------------------------- */

const row = (name, value) => `<tr><th>${name}</th><td>${value}</td></tr>`;
const swatch = (color) => `<span class="swatch" style="background:var(--${color})"></span>`;

function certificate() {
    if (g.exact) return `No partition takes less than ${time(g.bound, 5)}: the search was exact (${g.states} states, ${g.sets} sets, ${g.priced} prices, ${time(g.search_seconds)})` +
        (g.second_best >= 0 ? `; the next best that differs in one merge or split takes ${time(g.second_best, 5)}.` : ".");
    if (g.bound >= 0) return `The search met a limit: no partition takes less than ${time(g.bound, 5)}, this one ${time(g.seconds, 5)}.`;
    return g.mode === "given" ? "The plan was given as text; nothing was searched." : `Made by the rules of “${g.mode}”: no search, no certificate.`;
}

function joining() {
    const k = g.joining;
    if (!k.candidates) return "";
    return `<p id="joining">Of ${k.candidates} candidates for joining ${k.pay} would pay, ${k.rivals} of which want what others want; taken: ${k.taken}, for a gain of ${time(k.gain)}, ` +
        (k.exact ? "no choice gains more.</p>" : `no choice gains more than ${time(k.bound)}.</p>`);
}

function overview() {
    const sum = g.known.reduce((s, k) => s + k.measured, 0), of = g.known.reduce((s, k) => s + k.seconds, 0);
    $("#told").innerHTML = `<h2>${escape(g.graph)}</h2><table>` + row("fused by", escape(g.mode)) + row("nests", g.nests) + row("kernels", g.kernels) +
        row("predicted", time(g.seconds >= 0 ? g.seconds : g.predicted)) + (g.known.length ? row("measured", `${time(sum)}, where ${time(of)} was predicted (${g.known.length} kernels)`) : "") +
        row("kept out of memory", size(g.saved)) + `</table><p id="certificate">${certificate()}</p>${joining()}` +
        `<p class="dim">A box is a kernel, with what it is predicted to take; a line is a value that goes through memory. Click either.</p>`;
}

function pairRows(pairs) {
    return `<table>${pairs.map((p) => `<tr data-pair="${g.apart.indexOf(p)}"><td>${swatch(p.reason)}${p.from} → ${p.to}</td><td>%${escape(p.value)}, ${size(p.bytes)}${orders.has(p.value) ? ", " + orders.get(p.value) : ""}<br>
        <span class="dim">${p.reason}: ${escape(p.text)}</span></td></tr>`).join("")}</table>`;
}

function tellKernel(id) {
    const k = g.kernel.get(id), out = g.apart.filter((p) => p.from === id), into = g.apart.filter((p) => p.to === id);
    if (!k) return;
    $("#told").innerHTML = `<h2>kernel ${id}</h2><table>` + row("predicted", `${time(k.seconds)}, ${(100 * k.share).toFixed(1)} %`) + (k.measured === undefined ? "" : row("measured", time(k.measured))) +
        row("nests", k.nests) + row("keeps", size(k.saved_bytes)) + row("operators", k.operators.map(escape).join("<br>")) + "</table>" +
        (into.length ? `<h2>apart from those before</h2>${pairRows(into)}` : "") + (out.length ? `<h2>apart from those behind</h2>${pairRows(out)}` : "") + `<p><button id="back">all of it</button></p>`;
    choose(`.kernel[data-kernel="${id}"]`);
}

function tellPair(i) {
    const p = g.apart[i];
    if (!p) return;
    $("#told").innerHTML = `<h2>%${escape(p.value)}</h2><table>` + row("bytes", size(p.bytes)) + (orders.has(p.value) ? row("lies", orders.get(p.value)) : "") +
        row("from", `kernel ${p.from}: ${escape(g.kernel.get(p.from)?.name ?? "")}`) + row("to", `kernel ${p.to}: ${escape(g.kernel.get(p.to)?.name ?? "")}`) +
        row("apart for", swatch(p.reason) + p.reason) + row("", meaning[p.reason]) + row("here", escape(p.text)) + (p.together >= 0 ? row("together", time(p.together)) + row("apart", time(p.separate)) : "") +
        `</table><p><button id="back">all of it</button></p>`;
    choose(`.edge[data-pair="${i}"]`);
}

function choose(selector) {
    document.querySelectorAll("svg .chosen").forEach((e) => e.classList.remove("chosen"));
    const e = selector && $("svg " + selector);
    if (!e) return;
    e.classList.add("chosen");
    last = null;
    const at = e.getBoundingClientRect(), box = $("#graph").getBoundingClientRect();
    if (at.top < box.top || at.bottom > box.bottom || at.left < box.left || at.right > box.right)
        $("#graph").scrollBy(at.left + at.width / 2 - box.left - box.width / 2, at.top + at.height / 2 - box.top - box.height / 2);
}

function lists() {
    const reasons = Object.keys(meaning).map((r) => [r, g.apart.filter((p) => p.reason === r)]).filter(([, p]) => p.length);
    const byTime = [...g.groups].sort((a, b) => (b.measured ?? b.seconds) - (a.measured ?? a.seconds));
    $("#lists").innerHTML = `<h2>why neighbours are apart</h2><table>${reasons.map(([r, pairs]) =>
        `<tr data-reason="${r}" style="cursor:pointer"><td style="white-space:nowrap">${swatch(r)}${pairs.length} ${r}</td><td class="dim">${meaning[r]}</td></tr>`).join("")}</table>` +
        `<details><summary>each of the ${g.apart.length} pairs</summary>${pairRows(g.apart)}</details>` +
        `<details open><summary>kernels by time</summary><table>${byTime.map((k) => `<tr data-kernel="${k.kernel}"><td class="n">${k.kernel}</td><td>${swatch(k.kind)}${wordsOf(k)}</td>
            <td class="n">${time(k.seconds)}${k.measured === undefined ? "" : `<br>${time(k.measured)}`}</td></tr>`).join("")}</table></details>`;
}

document.addEventListener("click", (e) => {
    const on = e.target.closest?.("[data-kernel],[data-pair],tr[data-reason],#back");
    if (!on) return;
    if (on.id === "back") overview(), choose(null), $("svg").classList.remove("filtered");
    else if (on.dataset.pair !== undefined) tellPair(+on.dataset.pair);
    else if (on.dataset.kernel !== undefined) tellKernel(+on.dataset.kernel);
    else filter(on.dataset.reason);
});

/* Only the lines of one reason, or all again. */
let reason = null;
function filter(r) {
    reason = reason === r ? null : r;
    $("svg").classList.toggle("filtered", reason !== null);
    document.querySelectorAll("svg .edge").forEach((e) => e.classList.toggle("kept", e.dataset.reason === reason));
}

function find(words) {
    const wanted = words.toLowerCase(), makes = (k) => g.apart.some((p) => p.from === k.kernel && p.value.toLowerCase().includes(wanted));
    let first = null;
    document.querySelectorAll("svg .kernel").forEach((e) => {
        const k = g.kernel.get(+e.dataset.kernel), hit = words && (k.name.toLowerCase().includes(wanted) || makes(k));
        e.classList.toggle("hit", !!hit);
        if (hit) first ??= k.kernel;
    });
    return first;
}
$("input[type=search]").addEventListener("input", (e) => find(e.target.value));
$("input[type=search]").addEventListener("keydown", (e) => { const first = e.key === "Enter" ? find(e.target.value) : null; if (first) tellKernel(first); });

/* ---- the beginning ------------------------------------------------------------------------------------------------------- */

function show() {
    $("#sum").textContent = `${g.nests} nests in ${g.kernels} kernels, ${size(g.saved)} that never go to memory`;
    draw(), (last = fit)(), overview(), lists();
}
document.title = data.title + " - fusion";
$("h1").textContent = data.title;
$("select").innerHTML = data.graphs.map((x, i) => `<option value="${i}" ${x === g ? "selected" : ""}>${escape(x.graph)}</option>`).join("");
$("select").hidden = data.graphs.length < 2;
$("select").addEventListener("change", (e) => { g = data.graphs[+e.target.value]; show(); });
show();
const asked = new URLSearchParams(location.hash.slice(1));       /* page.html#kernel=3, #pair=2, #whole */
if (asked.get("kernel")) tellKernel(+asked.get("kernel"));
if (asked.get("pair")) tellPair(+asked.get("pair"));
if (asked.has("whole")) $("[data-zoom='0']").click();
document.body.dataset.ready = Math.round(performance.now());
