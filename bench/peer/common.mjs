// SPDX-License-Identifier: MIT
// Shared by the peer programs: options, and llama.cpp opened through node-llama-cpp, CPU only, never built here.

import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const words = {fa: ["auto", "on", "off"], mmap: ["on", "off"], bos: ["on", "off"], special: ["on", "off"]};
const mayBeZero = ["p", "n"]; // no such test

// Options as {long name: default}; numbers stay numbers, whole ones. "-p 512" and "--p 512" are the same. --help, and what is
// not understood, end the program.
export function options(defaults, usage) {
    const o = {...defaults};
    const args = process.argv.slice(2);
    if (args.includes("--help") || args.includes("-h")) {
        console.log(usage);
        process.exit(0);
    }
    for (let i = 0; i < args.length; i++) {
        const name = args[i].replace(/^--?/, "");
        if (!args[i].startsWith("-") || !Object.hasOwn(defaults, name) || i + 1 === args.length) {
            console.error(usage);
            process.exit(2);
        }
        const value = args[++i], least = mayBeZero.includes(name) ? 0 : 1, number = typeof defaults[name] === "number";
        if (number && !(/^\d{1,9}$/.test(value) && Number(value) >= least)) {
            console.error(`${args[i - 1]} takes a whole number, ${least} or more, not "${value}"`);
            process.exit(2);
        }
        if (words[name] && !words[name].includes(value)) {
            console.error(`${args[i - 1]} takes one of ${words[name].join(", ")}, not "${value}"`);
            process.exit(2);
        }
        o[name] = number ? Number(value) : value;
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
