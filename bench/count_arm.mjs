// SPDX-License-Identifier: MIT
// Counts the instructions of the ARM kernels' inner loops, and asks llvm-mca how many cycles a processor's model takes
// for them, beside the limit that its vector pipes set. Nothing runs. Writes the table of docs/ports.md.
//
//   node bench/count_arm.mjs [--mca PROGRAM] [--cc PROGRAM]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const usage = 'usage: count_arm.mjs [--mca LLVM-MCA] [--cc AARCH64-GCC]';
let mca = 'llvm-mca', cc = 'aarch64-linux-gnu-gcc';
for (let i = 2; i < process.argv.length; i += 2) {
  if (process.argv[i] === '--mca' && process.argv[i + 1]) mca = process.argv[i + 1];
  else if (process.argv[i] === '--cc' && process.argv[i + 1]) cc = process.argv[i + 1];
  else {
    console.error(usage);
    process.exit(2);
  }
}

// As CMakeLists.txt has them.
const flags = ['-std=c17', '-O3', '-DNDEBUG', '-ffp-contract=off', '-fno-math-errno', '-fvisibility=hidden', '-fPIC',
  '-D_GNU_SOURCE', '-Isrc', '-Iinclude', '-S'];
const march = { neon: [], dotprod: ['-march=armv8.2-a+dotprod'], i8mm: ['-march=armv8.2-a+dotprod+i8mm'] };
// Processors by their models in llvm-mca: vector pipes, and those of them that multiply integers.
const processors = {
  neon: [['cortex-a72', 2, 1]],
  dotprod: [['neoverse-n1', 2, 2], ['neoverse-v2', 4, 4], ['apple-m1', 3, 3]],
  i8mm: [['neoverse-n2', 2, 2], ['neoverse-v2', 4, 4]],
};
// What does the work; moves, loads, stores, addresses and branches do not.
const products = /^(sdot|smmla|smull2?|smlal2?)$/;
const arithmetic = /^(sdot|smmla|smull2?|smlal2?|saddlp|sadalp|addp|mls|mla|scvtf|ucvtf|fmul|fmla|fmls|fadd|fcvtl2?|tbl|bsl|bit|bif|cmtst|uxtl2?|sxtl2?|saddl2?|saddw2?|smax|zip[12]|uzp[12]|trn[12]|sshr|ushr|sli|cnt)$/;
const either = /^(and|orr|eor|add|sub|shl|mul|neg)$/; // vectors' and integers'

function isArithmetic([name, args]) {
  return arithmetic.test(name) || (either.test(name) && /^v\d/.test(args));
}

function compile(file, level, folder) {
  const out = join(folder, `${file}_${level}.s`);
  const more = file === 'step' || level !== 'i8mm' ? ['-fno-schedule-insns'] : [];
  execFileSync(cc, [...flags, ...march[level], ...more, `src/kernels/arm/${file}_${level}.c`, '-o', out]);
  return readFileSync(out, 'utf8').split('\n');
}

// The smallest loop of the function with that many products, without the blocks that call others.
function loopOf(lines, name, wanted) {
  const start = lines.indexOf(`${name}:`), end = lines.findIndex((l, i) => i > start && /^\t\.size/.test(l));
  if (start < 0) throw new Error(`${name} is not there`);
  const body = lines.slice(start, end);
  const at = new Map(body.map((l, i) => [/^(\.L\d+):/.exec(l)?.[1], i]));
  let best;
  body.forEach((line, i) => {
    const target = /^\t(?:b\.?\w\w|cbn?z|tbn?z)\t.*?(\.L\d+)$/.exec(line)?.[1];
    if (!target || !(at.get(target) < i)) return;
    const blocks = [[]];
    for (const l of body.slice(at.get(target) + 1, i + 1)) {
      if (/^\.L\d+:/.test(l)) blocks.push([]);
      else if (/^\t[a-z]/.test(l)) blocks.at(-1).push(l);
    }
    const kept = blocks.filter((b) => !b.some((l) => /^\tbl\t/.test(l))).flat()
      .map((l) => l.trim().split('\t')).map(([n, a]) => [n, a ?? '']);
    const count = kept.filter(([n]) => products.test(n)).length;
    if (count === wanted && (!best || kept.length < best.length)) best = kept;
  });
  if (!best) throw new Error(`${name} has no loop of ${wanted} products`);
  return best;
}

function cycles(loop, cpu) {
  const text = loop.filter(([n]) => !/^(b|b\.?\w\w|cbn?z|tbn?z)$/.test(n)).map((l) => l.join('\t')).join('\n');
  const out = execFileSync(mca, ['-mtriple=aarch64-linux-gnu', `-mcpu=${cpu}`, '-mattr=+dotprod,+i8mm',
    '-iterations=200', '-'], { input: `${text}\n`, stdio: ['pipe', 'pipe', 'ignore'] }).toString();
  return Number(/Total Cycles:\s+(\d+)/.exec(out)[1]) / 200;
}

const folder = mkdtempSync(join(tmpdir(), 'count-'));
try {
  // A loop of a step does two rows of 16 units; one of a prompt a unit of eight rows (narrow ones at level neon: 16) and
  // four tokens.
  const units = { Q4_0: 32, Q4_K: 32, Q8_0: 32, MXFP4: 32, Q6_K: 16 };
  const grids = { IQ2_XXS: 32, IQ3_S: 32 }; // prompts multiply them as they do Q4_0 or Q8_0
  console.log('| kernel | level | weights times tokens | instructions | arithmetic | products | cycles / limit = ratio |');
  console.log('| --- | --- | ---: | ---: | ---: | ---: | --- |');
  for (const [file, level, each] of [['step', 'neon', 8], ['step', 'dotprod', 16], ['prompt', 'neon', 8],
    ['prompt', 'dotprod', 16], ['prompt', 'i8mm', 32]]) {
    const lines = compile(file, level, folder);
    for (const [type, unit] of Object.entries(file === 'step' ? { ...units, ...grids } : units)) {
      const step = file === 'step', planes = step || type === 'Q8_0' || type === 'Q6_K' ? 2 : 1;
      const narrow = file === 'prompt' && level === 'neon' && planes === 1;
      const macs = step ? 2 * 16 * unit : (narrow ? 16 : 8) * 4 * unit;
      const wide = file === 'prompt' && level === 'neon' && !narrow; // 16 bits: four products, of both planes at once
      const wanted = wide ? macs / 4 : macs * planes / each;
      const loop = loopOf(lines, `${step ? 'any_rows' : 'prompt'}_${type}`, wanted);
      const work = loop.filter(isArithmetic).length;
      const ratios = processors[level].map(([cpu, pipes, multipliers]) => {
        const taken = cycles(loop, cpu), limit = Math.max(work / pipes, wanted / multipliers);
        return `${cpu} ${taken.toFixed(0)} / ${limit.toFixed(0)} = ${(taken / limit).toFixed(2)}`;
      });
      console.log(`| ${file} ${type} | ${level} | ${macs} | ${loop.length} | ${work} | ${wanted} | ${ratios.join(', ')} |`);
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
