// SPDX-License-Identifier: MIT
// ---- Markdown: what is inside paragraphs

const DEEP = 16; // more than so many levels inside one another stay plain text
const PLAIN = /[^\\`*_~[!<h\n]+/y;
const LINK = /\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)/y;
const BARE = /https?:\/\/[^\s<>"`]+/y;
const ANGLED = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
const MARKS = { "*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del" };
const isSpace = c => /\s/.test(c);
const isPunctuation = c => /[\p{P}\p{S}]/u.test(c);

function matchAt(pattern, text, at) {
    pattern.lastIndex = at;
    return pattern.exec(text);
}

// The address if it is one that may be followed from a text that nobody has read yet, else null.
function safeAddress(text) {
    try {
        const url = new URL(text);
        return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
    } catch {
        return null;
    }
}

function linkTo(address, children) {
    const href = safeAddress(address);
    return href ? fill(make("a", { href, target: "_blank", rel: "noopener noreferrer" }), children)
                : fill(make("span"), [...children, ` (${address})`]);
}

// The nodes of a text. Marks that are open are frames; those that are never closed become text again.
function inline(text, depth = 0) {
    const frames = [{ mark: "", items: [] }], unclosed = new Set();
    let at = 0, plain = "", bracket = 0;

    const put = item => {
        if (plain)
            frames.at(-1).items.push(plain);
        plain = "";
        if (item)
            frames.at(-1).items.push(item);
    };
    // All frames from i on become one list of nodes.
    const join = i => {
        put();
        const [first, ...rest] = frames.splice(i);
        for (const frame of rest) {
            first.items.push(frame.mark);
            for (const item of frame.items)
                first.items.push(item);
        }
        return first.items;
    };

    const code = () => {
        let n = 1, end = -1;
        while (text[at + n] === "`")
            n++;
        const fence = "`".repeat(n);
        for (let i = unclosed.has(n) ? -1 : text.indexOf(fence, at + n); i >= 0 && end < 0;) {
            let m = n;
            while (text[i + m] === "`")
                m++;
            if (m === n)
                end = i;
            else
                i = text.indexOf(fence, i + m);
        }
        if (end < 0) {
            unclosed.add(n);
            plain += fence;
            at += n;
            return;
        }
        const inner = text.slice(at + n, end).replace(/\n/g, " ");
        const padded = inner.length > 2 && inner.startsWith(" ") && inner.endsWith(" ") && inner.trim();
        put(make("code", null, padded ? inner.slice(1, -1) : inner));
        at = end + n;
    };

    const marks = () => {
        const c = text[at];
        let n = 1;
        while (text[at + n] === c)
            n++;
        const before = text[at - 1] || " ", after = text[at + n] || " ";
        const left = !isSpace(after) && (!isPunctuation(after) || isSpace(before) || isPunctuation(before));
        const right = !isSpace(before) && (!isPunctuation(before) || isSpace(after) || isPunctuation(after));
        const opens = left && (c !== "_" || !right || isPunctuation(before));
        const closes = right && (c !== "_" || !left || isPunctuation(after));
        at += n;
        let rest = n > 3 || (c === "~" && n !== 2) ? 0 : n;
        if (!rest)
            plain += c.repeat(n);
        while (closes && rest) {
            const i = frames.findLastIndex(f => f.mark[0] === c && f.mark.length <= rest);
            if (i < 0)
                break;
            const { mark } = frames[i];
            const items = join(i);
            put(fill(make(MARKS[mark]), items));
            rest -= mark.length;
        }
        const opened = rest === 3 ? [c + c, c] : rest ? [c.repeat(rest)] : [];
        for (const mark of opened) {
            if (opens && MARKS[mark] && frames.length < DEEP) {
                put();
                frames.push({ mark, items: [] });
            } else {
                plain += mark;
            }
        }
    };

    // [text](address), and images, which are not loaded: links to them.
    const link = () => {
        const start = text[at] === "!" ? at + 2 : at + 1;
        if (bracket >= 0 && bracket < start)
            bracket = text.indexOf("](", start);
        const label = bracket >= 0 && bracket - start < 1000 ? text.slice(start, bracket) : null;
        let open = 0;
        for (const c of label || "")
            open += c === "[" && open >= 0 ? 1 : c === "]" ? -1 : 0;
        const wanted = label !== null && !open && depth < 2;
        const target = wanted && matchAt(LINK, text.slice(bracket + 1, bracket + 2000), 0);
        if (!target) {
            plain += text.slice(at, start);
            at = start;
            return;
        }
        put(linkTo(target[1], inline(label || target[1], depth + 2)));
        at = bracket + 1 + target[0].length;
    };

    const bare = () => {
        const found = depth < 2 && !/\w/.test(text[at - 1] || " ") && matchAt(BARE, text, at);
        let address = found ? found[0] : "h", end = address.length;
        while (end > 1 && ".,;:!?'*_~".includes(address[end - 1]))
            end--;
        address = address.slice(0, end);
        let closed = address.split(")").length - address.split("(").length;
        for (; closed > 0 && address[end - 1] === ")"; end--)
            closed--;
        address = address.slice(0, end);
        if (found && safeAddress(address))
            put(linkTo(address, [address]));
        else
            plain += address;
        at += address.length;
    };

    while (at < text.length) {
        const c = text[at], next = text[at + 1];
        if (c === "\\" && next && /[!-/:-@[-`{-~]/.test(next)) {
            plain += next;
            at += 2;
        } else if (c === "`") {
            code();
        } else if (c === "*" || c === "_" || c === "~") {
            marks();
        } else if (c === "[" || (c === "!" && next === "[")) {
            link();
        } else if (c === "h") {
            bare();
        } else if (c === "\n") {
            put(make("br"));
            at++;
        } else {
            const angled = c === "<" && depth < 2 && matchAt(ANGLED, text, at);
            const run = angled ? angled[0] : (matchAt(PLAIN, text, at) || [c])[0];
            if (angled)
                put(linkTo(angled[1], [angled[1].replace(/^mailto:/, "")]));
            else
                plain += run;
            at += run.length;
        }
    }
    return join(0);
}

// ---- Markdown: blocks

const FENCE = /^ *(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*))?$/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}>/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)/;

const indentOf = line => line.length - line.trimStart().length;

// The cells of a row; "\|" is a bar in a cell.
function cellsOf(line) {
    const row = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
    return row.split(/(?<!\\)\|/).map(cell => cell.trim().replace(/\\\|/g, "|"));
}

function isTable(lines, i) {
    const under = lines[i + 1];
    return lines[i].includes("|") && under !== undefined && under.includes("-") &&
        cellsOf(under).every(cell => /^:?-+:?$/.test(cell)) && cellsOf(under).length === cellsOf(lines[i]).length;
}

function kindOf(lines, i) {
    const line = lines[i];
    return FENCE.test(line) ? "fence" : HEADING.test(line) ? "heading" : RULE.test(line) ? "rule" :
        QUOTE.test(line) ? "quote" : ITEM.test(line) ? "list" : isTable(lines, i) ? "table" : "paragraph";
}

const isText = (lines, i) => i < lines.length && lines[i].trim() && kindOf(lines, i) === "paragraph";

// Whether a line goes on with the list of the item `first`.
function inList(lines, i, first) {
    const item = lines[i].match(ITEM), base = first[1].length;
    if (indentOf(lines[i]) >= base + 2)
        return true;
    if (item && !RULE.test(lines[i]))
        return item[1].length >= base && /\d/.test(item[2]) === /\d/.test(first[2]);
    return lines[i - 1].trim() && isText(lines, i);
}

// Where the block that begins at line i ends.
const ENDS = {
    heading: (lines, i) => i + 1,
    rule: (lines, i) => i + 1,
    fence(lines, i) {
        const fence = lines[i].match(FENCE)[1];
        for (let end = i + 1; end < lines.length; end++) {
            const line = lines[end].trim();
            if (line.length >= fence.length && line === fence[0].repeat(line.length))
                return end + 1;
        }
        return lines.length;
    },
    quote(lines, i) {
        do
            i++;
        while (i < lines.length && (QUOTE.test(lines[i]) || isText(lines, i)));
        return i;
    },
    list(lines, i) {
        const first = lines[i].match(ITEM);
        for (let end = i + 1;;) {
            let next = end;
            while (next < lines.length && !lines[next].trim())
                next++;
            if (next === lines.length || !inList(lines, next, first))
                return end;
            end = indentOf(lines[next]) >= first[1].length + 2 && FENCE.test(lines[next]) ? ENDS.fence(lines, next)
                                                                                         : next + 1;
        }
    },
    table(lines, i) {
        for (i += 2; i < lines.length && lines[i].includes("|"); i++)
            ;
        return i;
    },
    paragraph(lines, i) {
        do
            i++;
        while (isText(lines, i));
        return i;
    },
};

function split(lines, depth) {
    const blocks = [];
    for (let i = 0; i < lines.length;) {
        if (!lines[i].trim()) {
            i++;
            continue;
        }
        const kind = depth < DEEP ? kindOf(lines, i) : "paragraph", end = ENDS[kind](lines, i);
        blocks.push({ kind, lines: lines.slice(i, end), depth });
        i = end;
    }
    return blocks;
}

const buildAll = (lines, depth) => split(lines, depth).map(build);

// One item; in tight lists a single paragraph is none.
function buildItem(lines, depth, tight) {
    const task = lines[0].match(/^\[([ xX])\] /);
    if (task)
        lines[0] = lines[0].slice(4);
    const blocks = split(lines, depth), bare = tight && blocks.filter(block => block.kind === "paragraph").length < 2;
    const item = fill(make("li"), blocks.flatMap(
        block => bare && block.kind === "paragraph" ? inline(textOf(block)) : [build(block)]));
    if (task) {
        const first = item.firstElementChild, place = first && first.tagName === "P" ? first : item;
        const checked = task[1] !== " ";
        place.prepend(make("input", { type: "checkbox", disabled: true, checked, "aria-label": "Done" }));
        item.className = "task";
    }
    return item;
}

const textOf = block => block.lines.map(line => line.trim()).join("\n");

const BUILD = {
    heading(block) {
        const [, marks, text] = block.lines[0].match(HEADING);
        const level = Math.min(6, marks.length + 2); // below the headings of the page
        return fill(make("h" + level), inline((text || "").replace(/\s+#+\s*$/, "")));
    },
    rule: () => make("hr"),
    paragraph: block => fill(make("p"), inline(textOf(block))),
    quote: block => fill(make("blockquote"),
        buildAll(block.lines.map(line => line.replace(/^ {0,3}> ?/, "")), block.depth + 1)),
    fence(block) {
        const [, fence, about] = block.lines[0].match(FENCE), indent = indentOf(block.lines[0]);
        const last = block.lines.at(-1).trim();
        const closed = block.lines.length > 1 && last.length >= fence.length && last === fence[0].repeat(last.length);
        const lines = block.lines.slice(1, closed ? -1 : undefined);
        const text = lines.map(line => line.slice(Math.min(indent, indentOf(line)))).join("\n");
        const language = about.trim().split(/\s/)[0];
        const code = make("code", null, text);
        return make("div", { className: "code" },
            make("header", null, make("span", null, language || "text"),
                button("Copy", event => copy(code.textContent, event.currentTarget),
                    { "aria-label": "Copy this code" })),
            make("pre", { tabIndex: 0 }, code));
    },
    list(block) {
        const lines = block.lines.map(line => line.replace(/^[ \t]+/, space => space.replace(/\t/g, "    ")));
        const first = lines[0].match(ITEM), base = first[1].length, items = [];
        let offset = 0, fence = "";
        for (const line of lines) {
            const item = line.match(ITEM), mark = line.match(FENCE);
            if (!fence && item && item[1].length < base + 2) {
                offset = Math.min(item[0].length, item[1].length + item[2].length + 4);
                items.push([line.slice(item[0].length)]);
            } else {
                items.at(-1).push(line.slice(Math.min(offset, indentOf(line))));
                if (mark && (!fence || (mark[1].startsWith(fence) && !mark[2].trim())))
                    fence = fence ? "" : mark[1];
            }
        }
        const tight = items.slice(0, -1).every(item => item.at(-1).trim()); // no blank lines between items
        const ordered = /\d/.test(first[2]);
        const list = make(ordered ? "ol" : "ul", ordered ? { start: parseInt(first[2], 10) } : null);
        return fill(list, items.map(item => buildItem(item, block.depth + 1, tight)));
    },
    table(block) {
        const sides = cellsOf(block.lines[1]).map(
            cell => /^:.*:$/.test(cell) ? "middle" : cell.endsWith(":") ? "right" : "");
        const row = (line, tag) => {
            const cells = cellsOf(line);
            const cell = (className, i) => fill(make(tag, { className }), inline(cells[i] || ""));
            return fill(make("tr"), sides.map(cell));
        };
        return make("div", { className: "table" }, make("table", null,
            make("thead", null, row(block.lines[0], "th")),
            fill(make("tbody"), block.lines.slice(2).map(line => row(line, "td")))));
    },
};

const build = block => BUILD[block.kind](block);

// Shows a text, of which only the blocks are built anew that have changed.
function showMarkdown(element, text) {
    const blocks = split(text.replace(/\r\n?/g, "\n").split("\n"), 0);
    blocks.forEach((block, i) => {
        const source = block.kind + block.lines.join("\n"), old = element.children[i];
        if (old && old.source === source)
            return;
        const fresh = build(block);
        fresh.source = source;
        if (!old)
            element.append(fresh);
        else if (block.kind === "fence" && old.className === "code") { // keeps its button's focus, and where it is
            old.querySelector("span").textContent = fresh.querySelector("span").textContent;
            old.querySelector("code").textContent = fresh.querySelector("code").textContent;
            old.source = source;
        } else
            old.replaceWith(fresh);
    });
    while (element.children.length > blocks.length)
        element.lastElementChild.remove();
}
