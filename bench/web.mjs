/* One model in WebAssembly: Tenon's folder and onnxruntime-web, in turn in this process.
 *
 *     node web.mjs '{"folder", "onnx", "data", "rounds", "seconds"}'
 *
 * data has the inputs as NAME.npy. It prints, as JSON, the medians of the rounds' medians [ms] of Tenon on one thread and on two
 * and of the peer on one, how far the outputs are apart, and the bytes of Tenon's memory. */
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

const asked = JSON.parse(process.argv[2]);
const { load } = await import(pathToFileURL(join(asked.folder, "model.mjs")));
const ort = await import(pathToFileURL(createRequire(join(asked.peers, "x.js")).resolve("onnxruntime-web")));
const TYPES = { "<f4": ["float32", Float32Array], "<i8": ["int64", BigInt64Array], "<i4": ["int32", Int32Array], "|u1": ["uint8", Uint8Array] };

function npy(path) {
    const file = readFileSync(path), header = file.toString("latin1", 10, 10 + file.readUInt16LE(8));
    const [type, Kind] = TYPES[/'descr': '(.*?)'/.exec(header)[1]];
    const dims = /'shape': \((.*?)\)/.exec(header)[1].split(",").filter((d) => d.trim()).map(Number);
    const begin = file.byteOffset + 10 + file.readUInt16LE(8);
    return { type, dims, data: new Kind(file.buffer.slice(begin, file.byteOffset + file.length)) };
}

const inputs = Object.fromEntries(readdirSync(asked.data).filter((f) => f.endsWith(".npy") && !f.startsWith("expect-"))
    .map((f) => [basename(f, ".npy"), npy(join(asked.data, f))]));
const of = (f) => Object.fromEntries(Object.entries(inputs).map(([name, x]) => [name, f(x)]));
const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];

ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(readFileSync(asked.onnx), { executionProviders: ["wasm"] });
const one = await load(null, { threads: 1 }), two = await load(null, { threads: 2 });
const runs = {
    one: () => one.run(of(({ data, dims }) => ({ data, dims }))),
    two: () => two.run(of(({ data, dims }) => ({ data, dims }))),
    peer: () => session.run(of(({ type, data, dims }) => new ort.Tensor(type, data, dims))),
};

async function turn(run) {
    const times = [], end = performance.now() + 1000 * asked.seconds;
    while (times.length < 3 || performance.now() < end) {
        const begin = performance.now();
        await run();
        times.push(performance.now() - begin);
    }
    return middle(times);
}

let error = 0;
const made = await runs.one(), expected = await runs.peer();
for (const [name, want] of Object.entries(expected)) {
    const got = made[name], most = want.data.reduce((m, v) => Math.max(m, Math.abs(Number(v))), 1e-30);
    want.data.forEach((v, i) => { error = Math.max(error, Math.abs(Number(v) - Number(got[i])) / most); });
}
const rounds = { one: [], two: [], peer: [] };
for (let i = 0; i < asked.rounds; i++)
    for (const [name, run] of Object.entries(runs))
        rounds[name].push(await turn(run));
console.log(JSON.stringify({ ...Object.fromEntries(Object.entries(rounds).map(([name, t]) => [name, middle(t)])), error, memory: await one.memory() }));
process.exit(0);
