/* session: a model's session, in a Worker of its own. It fetches module and weights, and answers
 * the page's messages { id, what, argument } with { id, result } or { id, error, code }.
 */

const isNode = typeof process === "object" && Boolean(process.versions?.node);
const HEAD = 64;    // bytes before the weights: run/run.h, ArtefactHead
const SHARED_PAGES = 65536, PAGE = 65536;

function startThread(Worker) {
    return new Worker(new URL("./thread.mjs", import.meta.url), { type: "module" });
}

const fault = (message, code) => Object.assign(new Error(message), { code });

let post, code, memory, info, threads = [];

/* ---- memory ---------------------------------------------------------------------------------- */

const bytesAt = (at, n) => new Uint8Array(memory.buffer, at, n);
const encoder = new TextEncoder(), decoder = new TextDecoder();

function textAt(at) {
    const all = new Uint8Array(memory.buffer);
    return decoder.decode(all.slice(at, all.indexOf(0, at)));    // a copy: no decoder takes shared memory
}

/* Frees with tn_free. */
function putBytes(bytes) {
    const at = code.tn_alloc(bytes.length + 1);
    if (!at)
        throw fault(`cannot get ${bytes.length} bytes of memory`, 5);
    bytesAt(at, bytes.length + 1).set(bytes);
    bytesAt(at + bytes.length, 1)[0] = 0;
    return at;
}

/* ---- fetching -------------------------------------------------------------------------------- */

const isFile = (url) => isNode && url.startsWith("file:");
const nodeFiles = () => import(/* @vite-ignore */ "node" + ":fs/promises");

async function fetched(url, what) {
    let response;
    try {
        response = await fetch(url);
    } catch (e) {
        throw fault(`${url}: ${what} cannot be fetched: ${e.message}; are the files of the model there?`, 3);
    }
    if (!response.ok)
        throw fault(`${url}: ${what} cannot be fetched: the server answers ${response.status} ${response.statusText}; ` +
            "serve all files of the model's folder together", 3);
    return response;
}

async function compiled(url) {
    let bytes;
    try {
        bytes = isFile(url) ? await (await nodeFiles()).readFile(new URL(url)) : await (await fetched(url, "the module")).arrayBuffer();
    } catch (e) {
        throw e.code && e.message.startsWith(url) ? e : fault(`${url}: the module cannot be read: ${e.message}`, 3);
    }
    try {
        return await WebAssembly.compile(bytes);
    } catch (e) {
        throw fault(`${url}: this is no module of a model, or cut off: ${e.message}`, 3);
    }
}

/* Pieces of the file of weights, and how long it is; 0: not known. */
async function openWeights(url, cached) {
    if (isFile(url)) {
        const { open } = await nodeFiles();
        let file;
        try {
            file = await open(new URL(url));
        } catch (e) {
            throw fault(`${url}: the weights cannot be read: ${e.message}; they belong beside the module`, 3);
        }
        return { total: (await file.stat()).size, pieces: file.createReadStream({ highWaterMark: 1 << 20 }) };
    }
    let store = null, hit = null;
    const key = `${url}?tenon=${info.weightsHash}`;
    try {
        store = cached && globalThis.caches ? await caches.open("tenon") : null;
        hit = store && await store.match(key);
    } catch { /* a page without storage */ }
    const response = hit ?? await fetched(url, "the weights");
    const keep = async () => {
        for (const old of await store.keys())
            if (old.url.startsWith(`${url}?tenon=`) && old.url !== key)
                await store.delete(old);
    };
    if (store && !hit)
        store.put(key, response.clone()).then(keep, () => {});    // no room: it is fetched again next time
    return { total: Number(response.headers.get("content-length")), pieces: piecesOf(response.body), drop: () => hit && store.delete(key) };
}

async function* piecesOf(body) {
    const reader = body.getReader();
    for (let r; !(r = await reader.read()).done;)
        yield r.value;
}

function checkHead(url, head) {
    const view = new DataView(head.buffer), bytes = view.getBigUint64(16, true), hash = view.getBigUint64(24, true);

    if (decoder.decode(head.subarray(0, 8)) !== "TENONART")
        throw fault(`${url}: this is no file of weights; serve what tenon compile wrote beside the module`, 3);
    if (Number(bytes) !== info.weightsBytes || hash.toString(16).padStart(16, "0") !== info.weightsHash)
        throw fault(`${url}: the weights do not belong to the module, which expects ${info.weightsBytes} bytes, hash ${info.weightsHash}; ` +
            `the file holds ${bytes}, hash ${hash.toString(16).padStart(16, "0")}: serve both from one compilation`, 3);
}

/* Each piece goes straight to its final place. */
async function readWeights(url, cached) {
    const at = code.tn_weights(), n = info.weightsBytes, all = HEAD + n;
    if (!at)
        throw fault(`cannot get ${n} bytes of memory for the weights; close other pages, or compile with --weights int8`, 5);
    const { pieces, drop } = await openWeights(url, cached);
    const head = new Uint8Array(HEAD);
    let done = 0;
    try {
        for await (const piece of pieces) {
            const inHead = Math.max(0, Math.min(HEAD - done, piece.length));
            if (done + piece.length > all)
                throw fault(`${url}: the file is longer than the ${all} bytes of weights that the module expects: ` +
                    "serve both from one compilation", 3);
            head.set(piece.subarray(0, inHead), Math.min(done, HEAD));
            if (done < HEAD && done + piece.length >= HEAD)
                checkHead(url, head);
            bytesAt(at, n).set(piece.subarray(inHead), done + inHead - HEAD);
            done += piece.length;
            post({ progress: { loaded: done, total: all } });
        }
    } catch (e) {
        await drop?.();
        throw e.code === 3 ? e : fault(`${url}: the weights broke off after ${done} of ${all} bytes: ${e.message}; load the model again`, 3);
    }
    if (done !== all) {
        await drop?.();
        throw fault(`${url}: the weights broke off after ${done} of ${all} bytes; load the model again`, 3);
    }
}

/* ---- loading --------------------------------------------------------------------------------- */

/* What C's library may ask a system for, which there is none of. */
function importsOf(module) {
    const imports = {};
    for (const { module: from, name, kind } of WebAssembly.Module.imports(module))
        if (kind === "function")
            (imports[from] ??= {})[name] = () => 52;    // ENOSYS
    return imports;
}

/* Shared memory comes from outside, with at least the pages that the module begins with. */
async function instantiateShared(module) {
    for (let pages = 16; ; pages += 16) {
        try {
            memory = new WebAssembly.Memory({ initial: pages, maximum: SHARED_PAGES, shared: true });
        } catch (e) {
            throw fault(`there is no address space for memory that threads share: ${e.message}; load with threads: 1`, 5);
        }
        try {
            return await WebAssembly.instantiate(module, { ...importsOf(module), env: { memory } });
        } catch (e) {
            if (!(e instanceof WebAssembly.LinkError) || pages >= 4096)
                throw e;
        }
    }
}

async function startThreads(module, n) {
    const STACK = 1 << 17;
    const Worker = globalThis.Worker ?? (await import(/* @vite-ignore */ "node" + ":worker_threads")).Worker;

    for (let i = 1; i < n; i++) {
        const stack = code.tn_alloc(STACK) + STACK & ~15, worker = startThread(Worker);
        threads.push(worker);
        await new Promise((resolve, reject) => {
            if (isNode) {
                worker.on("message", resolve).on("error", reject);
                worker.unref();
            } else {
                worker.onmessage = resolve;
                worker.onerror = (e) => reject(fault(`a thread cannot be started: ${e.message}; load with threads: 1`, 5));
            }
            worker.postMessage({ module, memory, stack, index: i });
        });
    }
}

async function load({ module: url, weights, threads: n, cache }) {
    const module = await compiled(url);
    const instance = n > 1 ? await instantiateShared(module) : await WebAssembly.instantiate(module, importsOf(module));

    code = instance.exports;
    memory = code.memory ?? memory;
    code._initialize();
    info = JSON.parse(textAt(code.tn_describe()));
    if (info.weightsBytes)
        await readWeights(weights, cache);
    code.tn_open(n);
    await startThreads(module, n);
    return { ...info, threads: n, module: url.replace(/.*\//, "") };
}

/* ---- tensors --------------------------------------------------------------------------------- */

const arrays = {
    f32: Float32Array, f64: Float64Array, i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
    u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array, bool: Uint8Array,
    f16: globalThis.Float16Array ?? Uint16Array, bf16: Uint16Array, i4: Int8Array, i2: Int8Array,
};
const arrayOf = (dtype) => arrays[dtype] ?? Uint8Array;

/* The value's dimensions: as given, or declared ones of which the length tells the one that is open. */
function dimsOf(x, given, length) {
    if (given)
        return given;
    const open = x.dims.filter((d) => typeof d === "string").length;
    const known = x.dims.reduce((n, d) => typeof d === "string" ? n : n * d, 1);
    if (open > 1 || (open && (!known || length % known)))
        throw fault(`input "${x.name}": ${x.dtype}[${x.dims.join(", ")}] leaves sizes open that ${length} elements do not tell; ` +
            "give { data, dims }", 2);
    return x.dims.map((d) => typeof d === "string" ? length / known : d);
}

/* Numbers, or an array of numbers, become the type that the model takes. */
function typed(x, value) {
    const Wanted = arrayOf(x.dtype), big = Wanted === BigInt64Array || Wanted === BigUint64Array;

    if (ArrayBuffer.isView(value))
        return value;
    const list = Array.isArray(value) ? value.flat(Infinity) : [value];
    return Wanted.from(list, big ? BigInt : Number);
}

const typeNames = Object.entries(arrays);
function dtypeOf(x, data) {
    const Given = data instanceof Uint8ClampedArray ? Uint8Array : data.constructor;
    return Given === arrayOf(x.dtype) || (x.dtype === "f16" && Given === Uint16Array) ? x.dtype :
        typeNames.find(([, A]) => A === Given)?.[0] ?? x.dtype;
}

/* Strings: addresses of 64 bits, and the characters, to be freed after the run. */
function putStrings(list, held) {
    return BigUint64Array.from(list, (s) => {
        const at = putBytes(encoder.encode(String(s)));
        held.push(at);
        return BigInt(at);
    });
}

function feed(i, x, value, held) {
    const { data: raw, dims: given } = value?.data !== undefined && !ArrayBuffer.isView(value) ? value : { data: value, dims: value?.dims };
    const text = x.dtype === "str";
    const data = text ? putStrings([raw].flat(Infinity), held) : typed(x, raw);
    const dims = dimsOf(x, given, data.length), bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const count = dims.reduce((n, d) => n * d, 1);

    if (count !== data.length)
        throw fault(`input "${x.name}": [${dims.join(", ")}] has ${count} elements, ${data.length} are given`, 2);
    if (dims.length > 12)
        throw fault(`input "${x.name}": rank ${dims.length}; at most 12 is possible`, 2);
    const name = putBytes(encoder.encode(text ? "str" : dtypeOf(x, data)));
    const at = code.tn_input(i, name, dims.length, bytes.length);
    code.tn_free(name);
    if (!at)
        throw fault(`cannot get ${bytes.length} bytes of memory for input "${x.name}"; run smaller inputs`, 5);
    bytesAt(at, bytes.length).set(bytes);
    new BigInt64Array(memory.buffer, code.tn_dims(i), dims.length).set(dims.map(BigInt));
}

function strings(bytes) {
    const at = new Uint32Array(bytes.buffer);    // an element has 8 bytes, an address 4
    return Array.from({ length: at.length / 2 }, (_, i) => at[2 * i] ? textAt(at[2 * i]) : "");
}

function output(x, i) {
    const bytes = bytesAt(code.tn_output(i), code.tn_output_bytes(i)).slice();
    const dims = Array.from(new BigInt64Array(memory.buffer, code.tn_output_dims(i), x.dims.length), Number);
    const data = x.dtype === "str" ? strings(bytes) : new (arrayOf(x.dtype))(bytes.buffer);
    return { name: x.name, data, dims };
}

/* ---- what a page asks ------------------------------------------------------------------------ */

function check(at) {
    const message = textAt(at);
    if (message)
        throw fault(message, code.tn_class());
}

function run(feeds) {
    const held = [], names = info.inputs.map((x) => x.name);

    for (const name of Object.keys(feeds))
        if (!names.includes(name))
            throw fault(`the model has no input "${name}"; its inputs are ${names.map((x) => `"${x}"`).join(", ")}`, 2);
    for (const name of names)
        if (feeds[name] === undefined || feeds[name] === null)
            throw fault(`input "${name}" is missing; the inputs are ${names.map((x) => `"${x}"`).join(", ")}`, 2);
    try {
        info.inputs.forEach((x, i) => feed(i, x, feeds[x.name], held));
        check(code.tn_run());
        return info.outputs.map(output);
    } finally {
        held.forEach((at) => code.tn_free(at));
    }
}

const answers = {
    load,
    run,
    reset: () => code.tn_reset(),
    length: () => code.tn_length(),
    drop: (rows) => check(code.tn_drop(rows)),
    memory: () => memory.buffer.byteLength,
};

let broken = null;
async function answer({ id, what, argument }) {
    try {
        if (broken)
            throw broken;
        const result = await answers[what](argument);
        post({ id, result }, what === "run" ? result.map((y) => y.data.buffer).filter(Boolean) : []);
    } catch (e) {
        let error = e;
        if (e instanceof WebAssembly.RuntimeError || e instanceof RangeError) {
            const bytes = code?.tn_wanted();
            error = broken = bytes ? fault(`cannot get ${bytes} bytes of memory; load the model again, and run smaller inputs`, 5)
                : fault(`the model stopped: ${e.message}; load it again, and please report it`, 7);
        }
        post({ id, error: error.message, code: typeof error.code === "number" ? error.code : 7 });
    }
}

if (isNode) {
    import(/* @vite-ignore */ "node" + ":worker_threads").then(({ parentPort }) => {
        post = (m, transfer) => parentPort.postMessage(m, transfer);
        parentPort.on("message", answer);
    });
} else {
    post = (m, transfer) => self.postMessage(m, transfer);
    self.onmessage = (e) => answer(e.data);
}
