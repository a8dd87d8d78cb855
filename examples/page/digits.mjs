/* A digit that one draws: 32 by 32 points, of which the model takes the number of black ones in blocks of four by four. */
import { load } from "./models/digits/model.mjs";

export async function digits(canvas, clear, digit, sure) {
    const model = await load(null, { threads: 1 });
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    let busy = false;

    async function read() {
        if (busy)
            return;
        busy = true;
        const points = pen.getImageData(0, 0, 32, 32).data, image = new Float32Array(64);
        for (let i = 0; i < 32 * 32; i++)
            image[(i >> 7) * 8 + ((i & 31) >> 2)] += points[4 * i + 3] > 127;
        const { probability } = await model.run({ image });
        const best = probability.indexOf(Math.max(...probability));
        digit.textContent = best;
        sure.textContent = `${(100 * probability[best]).toFixed(0)} % sure`;
        busy = false;
    }

    pen.lineWidth = 3.5;
    pen.lineCap = pen.lineJoin = "round";
    const at = (e) => [e.offsetX * 32 / canvas.clientWidth, e.offsetY * 32 / canvas.clientHeight];
    canvas.onpointerdown = (e) => { pen.beginPath(); pen.moveTo(...at(e)); };
    canvas.onpointermove = (e) => {
        if (!e.buttons)
            return;
        pen.lineTo(...at(e));
        pen.stroke();
        read();
    };
    clear.onclick = () => { pen.clearRect(0, 0, 32, 32); digit.textContent = sure.textContent = ""; };
}
