/** Types of a model compiled by tenon for the web. */

export type Data = Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array |
    Uint8Array | Uint8ClampedArray | Uint16Array | Uint32Array | BigUint64Array | string[];
/** Numbers become the type that the model takes. */
export type Input = Data | number | bigint | string | readonly number[] | { data: Data | readonly number[]; dims: readonly number[] };
export type Output = Data & { dims: number[] };

export interface Tensor {
    name: string;
    /** "f32", "i64", "str", … */
    dtype: string;
    /** A string is the name of a size that the model leaves open. */
    dims: (number | string)[];
}

export interface Model {
    readonly name: string;
    readonly summary: string;
    readonly inputs: Tensor[];
    readonly outputs: Tensor[];
    /** How many tensors it keeps between runs. */
    readonly states: number;
    readonly weightsBytes: number;
    readonly weightsHash: string;
    readonly threads: number;
    /** The file that was chosen for this browser. */
    readonly module: string;
    run(feeds?: Record<string, Input>): Promise<Record<string, Output>>;
    /** Empties the states. */
    reset(): Promise<void>;
    /** Rows of the states that grow. */
    length(): Promise<number>;
    /** Takes the last rows off the states that grow. */
    drop(rows: number): Promise<void>;
    /** Bytes of memory that the session has. */
    memory(): Promise<number>;
    close(): void;
}

export interface LoadOptions {
    /** Default: one for each processor, at most 8; one where memory cannot be shared. */
    threads?: number;
    /** Bytes of the weights so far, and in all. */
    onProgress?: (progress: { loaded: number; total: number }) => void;
    /** Keep the weights in the browser's cache (default: true). */
    cache?: boolean;
}

export class TenonError extends Error {
    /** 2 an input or option, 3 a file, 4 the browser lacks something, 5 a limit, 7 a fault of the compiler. */
    readonly code: number;
}

/** url: the folder of the model's files; left out: beside this module. */
export function load(url?: string | URL | null, options?: LoadOptions): Promise<Model>;
