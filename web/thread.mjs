/* thread: one of a session's pool, which works on ranges of loops until it is ended. */

const isNode = typeof process === "object" && Boolean(process.versions?.node);

async function work({ module, memory, stack, index }, post) {
    const imports = { env: { memory } };
    for (const { module: from, name, kind } of WebAssembly.Module.imports(module))
        if (kind === "function")
            (imports[from] ??= {})[name] = () => 52;    // as the session's
    const { exports } = await WebAssembly.instantiate(module, imports);
    exports.__stack_pointer.value = stack;
    post("ready");
    exports.tn_work(index);    // does not return
}

if (isNode)
    import(/* @vite-ignore */ "node" + ":worker_threads").then(({ parentPort }) =>
        parentPort.once("message", (m) => work(m, (text) => parentPort.postMessage(text))));
else
    self.onmessage = (e) => work(e.data, (text) => self.postMessage(text));
