/* What tests ask of a model for the web: node web.mjs FOLDER OPTIONS reads a list of calls, JSON, from standard input, and prints
 * a list of answers. A call is [what, argument]; tensors are { dtype, dims, data }. */
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, options] = process.argv.slice(2);
const { load } = await import(pathToFileURL(`${folder}/model.mjs`));
const arrays = { f32: Float32Array, f64: Float64Array, i64: BigInt64Array, i32: Int32Array, u8: Uint8Array };

const given = ({ dtype, dims, data }) => ({ data: dtype === "str" || !dtype ? data :
    arrays[dtype].from(data, dtype === "i64" ? BigInt : Number), dims });
const shown = (y) => ({ dims: y.dims, data: Array.from(y, (v) => typeof v === "bigint" ? Number(v) : v) });
const of = (list, f) => Object.fromEntries(Object.entries(list).map(([name, x]) => [name, f(x)]));

async function answer(model, [what, argument]) {
    try {
        if (what === "run")
            return of(await model.run(of(argument, given)), shown);
        if (what === "info")
            return { threads: model.threads, module: model.module, inputs: model.inputs, memory: await model.memory() };
        return await model[what](argument) ?? null;
    } catch (e) {
        return { error: e.message, code: e.code };
    }
}

const { repeat = 1, ...how } = JSON.parse(options ?? "{}");
const calls = JSON.parse(readFileSync(0, "utf8")), answers = [], before = [];
try {
    for (let i = 0; i < repeat; i++) {
        const progress = [], model = await load(null, { ...how, onProgress: (p) => progress.push(p) });
        answers.length = 0;
        for (const call of calls)
            answers.push(call[0] === "progress" ? progress : await answer(model, call));
        model.close();
        await new Promise((next) => setTimeout(next, 10));
        before.push(process.memoryUsage().rss);
    }
    if (repeat > 1)
        answers.push(before);
} catch (e) {
    answers.push({ error: e.message, code: e.code });
}
console.log(JSON.stringify(answers));
