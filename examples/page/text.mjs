/* Text from the decoder of examples/generate, whose cache is a state of the session. A token below 256 is a byte; token 256 + i is
 * the pair of tokens in line i of tokens.txt. */
import { load } from "./models/austen/model.mjs";

function encode(pairs, text) {
    let tokens = [...new TextEncoder().encode(text)];
    pairs.forEach(([a, b], i) => {
        const merged = [];
        for (let k = 0; k < tokens.length; k++)
            merged.push(tokens[k] === a && tokens[k + 1] === b ? (k++, 256 + i) : tokens[k]);
        tokens = merged;
    });
    return tokens;
}

const bytesOf = (pairs, token) => token < 256 ? [token] : pairs[token - 256].flatMap((t) => bytesOf(pairs, t));

/* One of the tokens, in proportion to their probabilities at this temperature. */
function sample(scores, temperature) {
    const most = Math.max(...scores), weight = Array.from(scores, (s) => Math.exp((s - most) / temperature));
    let left = Math.random() * weight.reduce((a, b) => a + b, 0);
    return Math.max(0, weight.findIndex((w) => (left -= w) < 0));
}

export async function text(prompt, write, out) {
    const model = await load(null, { threads: 1, onProgress: ({ loaded, total }) => { out.textContent = `${(100 * loaded / total).toFixed(0)} % loaded`; } });
    const lines = (await (await fetch("./models/tokens.txt")).text()).trim().split("\n");
    const pairs = lines.map((line) => line.split(" ").map(Number));
    out.textContent = "";

    write.onclick = async () => {
        write.disabled = true;
        await model.reset();
        const decoder = new TextDecoder();
        let tokens = encode(pairs, prompt.value), seen = 0;
        out.textContent = prompt.value;
        for (let n = 0; n < 120; n++) {
            seen += tokens.length;
            const { logits } = await model.run({
                input_ids: { data: BigInt64Array.from(tokens, BigInt), dims: [1, tokens.length] },
                attention_mask: { data: new BigInt64Array(seen).fill(1n), dims: [1, seen] },
            });
            tokens = [sample(logits.subarray(-logits.dims[2]), 0.7)];
            out.textContent += decoder.decode(Uint8Array.from(bytesOf(pairs, tokens[0])), { stream: true });
        }
        write.disabled = false;
    };
}
