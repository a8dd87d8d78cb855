/* model: a model compiled by tenon, for pages, Workers, Node and bundlers.
 *
 *     import { load } from "./model.mjs";
 *     const model = await load();                    // from beside this file; or load("https://…/folder/")
 *     const { y } = await model.run({ x });
 *
 * The session lives in a Worker (session.mjs), since a page's main thread may not wait. What is
 * sent there and back is typed arrays; messages of errors are the model's own.
 */

const isNode = typeof process === "object" && Boolean(process.versions?.node);

/* Bundlers find files by expressions of exactly this form. */
const files = {
    "model.wasm": new URL("./model.wasm", import.meta.url),
    "model-relaxed.wasm": new URL("./model-relaxed.wasm", import.meta.url),
    "model-threads.wasm": new URL("./model-threads.wasm", import.meta.url),
    "model-relaxed-threads.wasm": new URL("./model-relaxed-threads.wasm", import.meta.url),
    "model.weights": new URL("./model.weights", import.meta.url),
};

function startSession(Worker) {
    return new Worker(new URL("./session.mjs", import.meta.url), { type: "module" });
}

/* ---- what the engine has --------------------------------------------------------------------- */

/* Modules of one function each: i8x16.splat with i8x16.popcnt, and i8x16.relaxed_swizzle. */
const simd = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
const relaxed = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15,
    253, 128, 2, 11];
const has = (bytes) => WebAssembly.validate(new Uint8Array(bytes));

let told = false;
async function threadsHere(wanted) {
    const processors = globalThis.navigator?.hardwareConcurrency ??
        (isNode ? (await import(/* @vite-ignore */ "node" + ":os")).cpus().length : 1);
    const threads = wanted ?? Math.min(processors, 8);

    if (!Number.isInteger(threads) || threads < 1 || threads > 64)
        throw new TypeError(`threads: ${threads} are asked for; 1 to 64 are possible`);
    if (threads === 1 || (typeof SharedArrayBuffer === "function" && (isNode || globalThis.crossOriginIsolated)))
        return threads;
    if (!told)
        console.info("tenon: one thread is used. For more, serve the page with the headers " +
            "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp");
    told = true;
    return 1;
}

/* ---- a model --------------------------------------------------------------------------------- */

/* What went wrong, as the model says it. code: 2 an input or option, 3 a file, 4 the browser lacks
 * something, 5 memory or another limit, 7 a fault of the compiler. */
export class TenonError extends Error {
    constructor(message, code) {
        super(message);
        this.name = "TenonError";
        this.code = code;
    }
}

class Model {
    #worker;
    #waiting = new Map();
    #next = 0;
    #closed = null;
    #onProgress;

    constructor(worker, onProgress) {
        this.#worker = worker;
        this.#onProgress = onProgress;
        const heard = (m) => this.#heard(m);
        const failed = (e) => this.#end(new TenonError(`the model's Worker ended: ${e.message ?? e}; load the model again`, 7));
        if (isNode) {
            worker.on("message", heard);
            worker.on("error", failed);
        } else {
            worker.onmessage = (e) => heard(e.data);
            worker.onerror = failed;
        }
    }

    #heard(m) {
        if (m.progress) {
            this.#onProgress?.(m.progress);
            return;
        }
        const { resolve, reject } = this.#waiting.get(m.id);
        this.#waiting.delete(m.id);
        if (isNode && !this.#waiting.size)
            this.#worker.unref();    // a program may end although a model is loaded
        if (m.error)
            reject(new TenonError(m.error, m.code));
        else
            resolve(m.result);
    }

    #end(error) {
        this.#closed = error;
        for (const { reject } of this.#waiting.values())
            reject(error);
        this.#waiting.clear();
        this.#worker.terminate();
    }

    #ask(what, argument) {
        if (this.#closed)
            return Promise.reject(this.#closed);
        return new Promise((resolve, reject) => {
            const id = this.#next++;
            if (isNode)
                this.#worker.ref();
            this.#waiting.set(id, { resolve, reject });
            this.#worker.postMessage({ id, what, argument });
        });
    }

    async load(argument) {
        try {
            Object.assign(this, await this.#ask("load", argument));
        } catch (error) {
            this.#end(error);
            throw error;
        }
        return this;
    }

    /* feeds: typed arrays by name, { data, dims } where dims do not follow from the length; strings
     * as arrays of strings. Answers typed arrays by name, each with its dims. */
    async run(feeds = {}) {
        const outputs = await this.#ask("run", feeds);
        return Object.fromEntries(outputs.map(({ name, data, dims }) => [name, Object.assign(data, { dims })]));
    }
    reset() { return this.#ask("reset"); }
    length() { return this.#ask("length"); }
    drop(rows) { return this.#ask("drop", rows); }
    memory() { return this.#ask("memory"); }
    close() { this.#end(new TenonError("the model was closed; load it again", 2)); }
}

export async function load(url, { threads, onProgress, cache = true } = {}) {
    const beside = url === undefined || url === null ? null :
        new URL(String(url).replace(/\/?$/, "/"), globalThis.document?.baseURI ?? globalThis.location?.href ?? import.meta.url);
    const at = (name) => (beside ? new URL(name, beside) : files[name]).href;

    if (typeof WebAssembly !== "object" || !has(simd))
        throw new TenonError("this browser has no WebAssembly with SIMD, which the model is compiled for; use Chrome 91, " +
            "Firefox 89, Safari 16.4, Node 16.4 or newer", 4);
    const n = await threadsHere(threads);
    const module = `model${has(relaxed) ? "-relaxed" : ""}${n > 1 ? "-threads" : ""}.wasm`;
    const Worker = globalThis.Worker ?? (await import(/* @vite-ignore */ "node" + ":worker_threads")).Worker;

    return new Model(startSession(Worker), onProgress).load({ module: at(module), weights: at("model.weights"), threads: n, cache });
}
