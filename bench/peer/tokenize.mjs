// SPDX-License-Identifier: MIT
// Tokenizes stdin with llama.cpp; ids on one line, as `hearth tokenize` prints them. BOS is added when the model asks
// for it, unless -bos off; -special on takes the text of control tokens as those tokens.

import {readFileSync} from "node:fs";
import {options, open} from "./common.mjs";

const o = options({m: "", bos: "on", special: "off"},
    "usage: node tokenize.mjs -m MODEL [-bos on|off] [-special off|on] < TEXT");
const text = readFileSync(0, "utf8");
const {llama, model} = await open(o, {vocabOnly: true});
const ids = [...model.tokenize(text, o.special === "on")];
if (o.bos === "on" && model.tokens.shouldPrependBosToken && model.tokens.bos != null)
    ids.unshift(model.tokens.bos);
console.log(ids.join(" "));
await llama.dispose();
