// SPDX-License-Identifier: MIT
// Shared by the peer programs: options, and llama.cpp opened through node-llama-cpp, CPU only, never built here.

import {getLlama, LlamaLogLevel} from "node-llama-cpp";

// Options as {long name: default}; numbers stay numbers. "-p 512" and "--p 512" are the same.
export function options(defaults, usage) {
    const o = {...defaults};
    const args = process.argv.slice(2);
    for (let i = 0; i < args.length; i++) {
        const name = args[i].replace(/^--?/, "");
        if (!args[i].startsWith("-") || !(name in defaults) || i + 1 === args.length) {
            console.error(usage);
            process.exit(2);
        }
        const value = args[++i];
        o[name] = typeof defaults[name] === "number" ? Number(value) : value;
        if (Number.isNaN(o[name])) {
            console.error(`${args[i - 1]}: ${value} is not a number`);
            process.exit(2);
        }
    }
    if (!o.m) {
        console.error(usage);
        process.exit(2);
    }
    return o;
}

export async function open(o, modelOptions = {}) {
    const llama = await getLlama({
        build: "never", gpu: false, maxThreads: o.t ?? 0, logLevel: LlamaLogLevel.error, progressLogs: false
    });
    const model = await llama.loadModel({modelPath: o.m, gpuLayers: 0, useMmap: o.mmap !== "off", ...modelOptions});
    return {llama, model};
}

// "auto", "on" and "off" as node-llama-cpp wants them.
export const flash = (value) => (value === "auto" ? "auto" : value === "on");
