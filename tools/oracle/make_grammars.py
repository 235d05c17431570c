#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/grammar/schemas.json: schemas, each with documents that the package jsonschema finds
valid or invalid. Usage: make_grammars.py OUT

Also checks documents that were generated under these schemas: make_grammars.py --check FILE, where each line
is the number of a schema, a blank and the document."""

import json
import random
import string
import sys

from jsonschema import Draft202012Validator

random.seed(20261122)
STR = {"type": "string"}
INT = {"type": "integer"}
NUM = {"type": "number"}
BOOL = {"type": "boolean"}


def obj(properties, required=None, **more):
    return {"type": "object", "properties": properties,
            "required": list(properties) if required is None else required, **more}


CLOSED = {"additionalProperties": False}
BY_HAND = [
    {}, True, STR, INT, NUM, BOOL, {"type": "null"}, {"type": ["string", "null"]}, {"type": ["integer", "boolean"]},
    {"type": "object"}, {"type": "array"}, {"type": "array", "items": INT}, {"type": "array", "items": False},
    {"type": "array", "items": STR, "minItems": 2}, {"type": "array", "items": BOOL, "maxItems": 3},
    {"type": "array", "items": NUM, "minItems": 1, "maxItems": 2}, {"items": INT, "minItems": 3, "maxItems": 3, "type": "array"},
    {"type": "array", "prefixItems": [INT, STR, BOOL], "items": False},
    {"type": "array", "prefixItems": [INT, STR], "items": BOOL, "minItems": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [INT, STR], "items": False, "minItems": 2, "maxItems": 2},
    {"type": "array", "prefixItems": [INT, STR, NUM], "items": False, "maxItems": 2},
    {"type": "array", "prefixItems": [INT], "items": STR, "minItems": 3},
    obj({"a": INT, "b": STR}), obj({"a": INT, "b": STR}, **CLOSED), obj({"a": INT, "b": STR}, ["b"], **CLOSED),
    obj({"a": INT, "b": STR, "c": BOOL}, [], **CLOSED), obj({"a": INT, "b": STR, "c": BOOL}, ["c"], **CLOSED),
    obj({"a": INT, "b": STR, "c": BOOL, "d": NUM}, ["b", "d"], additionalProperties=True),
    obj({"name": STR}, additionalProperties=INT), obj({}, [], additionalProperties={"type": "string"}),
    obj({"na": INT, "name": INT, "names": INT}, ["name"], additionalProperties=STR),
    obj({"": INT, "a b": STR, "quo\"te": BOOL, "ü": NUM}, [""], **CLOSED),
    obj({"ä": INT, "äb": INT}, [], additionalProperties=BOOL),
    obj({"x": obj({"y": obj({"z": {"type": "array", "items": obj({"w": BOOL})}})})}),
    {"enum": ["red", "green", "blue"]}, {"enum": [1, "1", None, True, 2.5]}, {"const": "only"}, {"const": 42},
    {"enum": [{"a": 1, "b": [1, 2]}, [], {}, "with \"quotes\" and \\ and \n"]}, {"const": {"k": [None, False]}},
    {"type": "string", "enum": ["a", "b", 3]}, {"enum": ["é", "日本", "😀"]},
    {"anyOf": [INT, STR]}, {"oneOf": [{"type": "null"}, obj({"a": INT})]},
    {"anyOf": [obj({"kind": {"const": "a"}, "x": INT}, **CLOSED), obj({"kind": {"const": "b"}, "y": STR}, **CLOSED)]},
    {"type": "object", "properties": {"a": INT}, "required": ["a"], "anyOf": [{"properties": {"b": STR}, "required": ["b"]}, {"properties": {"c": BOOL}, "required": ["c"]}]},
    {"allOf": [obj({"a": INT}), obj({"b": STR})]}, {"allOf": [{"type": "integer"}, {"minimum": 3}, {"maximum": 12}]},
    {"allOf": [{"type": ["string", "integer"]}, {"type": ["number", "null"]}]},
    {"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]}, {"allOf": [obj({"a": INT}, []), obj({"a": {"minimum": 5}}, ["a"])]},
    {"allOf": [{"anyOf": [INT, STR]}, {"anyOf": [STR, BOOL]}]},
    {"$defs": {"p": obj({"x": INT, "y": INT}, **CLOSED)}, "type": "array", "items": {"$ref": "#/$defs/p"}},
    {"$defs": {"node": obj({"v": INT, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, **CLOSED)}, "$ref": "#/$defs/node"},
    {"definitions": {"t": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/definitions/t"}}}, "required": ["kids"], "additionalProperties": False}}, "$ref": "#/definitions/t"},
    obj({"v": INT, "sub": {"$ref": "#"}}, ["v"], **CLOSED), {"$defs": {"a/b": INT, "c~d": STR}, "type": "array", "prefixItems": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/c~0d"}], "items": False},
    {"$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s", "maxLength": 3},
    {"$defs": {"base": obj({"id": INT})}, "allOf": [{"$ref": "#/$defs/base"}, obj({"name": STR})]},
    {"type": "string", "minLength": 3}, {"type": "string", "maxLength": 5}, {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "minLength": 0}, {"type": "string", "maxLength": 0}, {"minLength": 2, "type": ["string", "null"]},
    *({"type": "string", "pattern": p} for p in (
        "^[a-z]+$", "^\\d{3}-\\d{4}$", "^(foo|bar)+$", "abc", "^abc", "abc$", "^a.c$", "^[^a-z]{2,4}$", "^\\w+@\\w+\\.com$",
        "^$", "^(?:a|bc)?d*$", "^[\"\\\\]+$", "^#[0-9a-fA-F]{6}$", "^\\(\\d{3}\\) \\d+$", "^[A-Z][a-z]*( [A-Z][a-z]*)*$", "^a|b$",
        "^[\\u00e0-\\u00ff]+$", "^\\S+\\s\\S+$", "^[+-]?\\d+(\\.\\d+)?$", "^\\x41\\t$", "^é+$")),
    *({"type": "string", "format": f} for f in ("date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "duration", "uri")),
    *({"type": "integer", **b} for b in (
        {"minimum": 0}, {"minimum": 1}, {"maximum": 0}, {"minimum": -5, "maximum": 5}, {"minimum": 18, "maximum": 99},
        {"minimum": 0, "maximum": 150}, {"minimum": 7, "maximum": 7}, {"minimum": 95, "maximum": 1203}, {"exclusiveMinimum": 0},
        {"exclusiveMaximum": 100, "minimum": 98}, {"minimum": -1234, "maximum": -17}, {"maximum": -1}, {"minimum": 1000},
        {"minimum": 1.5, "maximum": 3.2}, {"minimum": 123456789, "maximum": 987654321012}, {"exclusiveMinimum": -1, "exclusiveMaximum": 1},
        {"minimum": 199, "maximum": 201}, {"minimum": 100, "maximum": 999}, {"minimum": -100, "maximum": 10})),
    *({"type": "number", **b} for b in (
        {"minimum": 0}, {"minimum": 0, "maximum": 1}, {"exclusiveMinimum": 0}, {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"minimum": -1, "maximum": 1}, {"maximum": 0}, {"exclusiveMaximum": 0}, {"minimum": 3, "maximum": 10}, {"minimum": -10, "maximum": -3},
        {"exclusiveMinimum": -2, "maximum": 2}, {"minimum": 5, "maximum": 5}, {"minimum": -273})),
    {"minimum": 3, "maxLength": 2}, {"properties": {"a": INT}, "required": ["a"], "minItems": 1},
    obj({"role": {"enum": ["user", "assistant"]}, "content": {"type": ["string", "null"]}, "score": {"type": "number", "minimum": 0, "maximum": 1}}, **CLOSED),
    {"title": "noted", "description": "x", "default": 1, "examples": [2], "type": "integer", "$comment": "y"},
]


def random_schema(depth):
    kind = random.choice(["str", "int", "num", "bool", "enum", "null"] + ["obj", "obj", "arr", "any"] * (depth > 0))
    if kind == "str":
        s = {"type": "string"}
        if random.random() < 0.4:
            s["minLength"] = random.randint(0, 4)
        if random.random() < 0.4:
            s["maxLength"] = s.get("minLength", 0) + random.randint(0, 6)
        return s
    if kind == "int" or kind == "num":
        s = {"type": "integer" if kind == "int" else "number"}
        lo = random.choice([None, random.randint(-3000, 3000), random.randint(-9, 9)])
        hi = random.choice([None, (lo or 0) + random.randint(1, 5000), (lo or 0) + random.randint(1, 12)])
        if lo is not None:
            s[random.choice(["minimum", "exclusiveMinimum"])] = lo
        if hi is not None:
            s[random.choice(["maximum", "exclusiveMaximum"])] = hi + 2
        return s
    if kind == "bool":
        return {"type": "boolean"}
    if kind == "null":
        return {"type": ["null", random.choice(["string", "integer"])]}
    if kind == "enum":
        return {"enum": random.sample(["a", "b", "ab", 1, 2, 12, None, True, 1.5, [], [1]], random.randint(1, 4))}
    if kind == "any":
        return {random.choice(["anyOf", "oneOf"]): [random_schema(depth - 1), obj({"k": random_schema(depth - 1)}, **CLOSED)]}
    if kind == "arr":
        s = {"type": "array", "items": random_schema(depth - 1)}
        if random.random() < 0.5:
            s["minItems"] = random.randint(0, 3)
        if random.random() < 0.5:
            s["maxItems"] = s.get("minItems", 0) + random.randint(0, 3)
        return s
    names = random.sample(["a", "b", "name", "names", "id", "x1", "long name", "q"], random.randint(1, 5))
    s = obj({n: random_schema(depth - 1) for n in names}, [n for n in names if random.random() < 0.5])
    more = random.choice([False, False, True, "schema", None])
    if more is not None:
        s["additionalProperties"] = random_schema(0) if more == "schema" else more
    return s


# ---- documents

def text(n):
    alphabet = string.ascii_letters + string.digits + " _-.,:@#()+\"\\\n\téß日😀"
    return "".join(random.choice(alphabet if random.random() < 0.3 else string.ascii_lowercase) for _ in range(n))


SPECIAL = ["2024-02-29", "2023-02-29", "2024-13-01", "2024-04-31", "1999-12-31", "12:30:00Z", "23:59:59.5+01:30", "24:00:00Z", "12:30", "2024-02-29T12:30:00Z",
           "2024-02-30T12:30:00Z", "2024-01-01 10:00:00Z", "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "a@b.com", "a.b@c", "no at",
           "127.0.0.1", "256.1.1.1", "1.2.3", "1:2:3:4:5:6:7:8", "::g", "example.com", "-bad-.com", "P1D", "PT5M", "P", "P1Y2M3DT4H5M6S", "P2W", "https://example.com/a",
           "abc", "xabcx", "foobar", "foo", "barfoo", "555-1234", "", "d", "add", "bcd", "\"", "\\", "\"\\", "#12abEF", "(123) 4", "Ann Lee", "ann", "ab", "b", "ba", "àé",
           "x y", "1.50", "-3", "A\t", "éé", "a\nc", "a.c", "AB", "12", "user@host.com", "axc", "red", "3"]


def any_value(depth=1):
    kind = random.randint(0, 6 if depth else 4)
    if kind < 2:
        return text(random.randint(0, 6))
    if kind == 2:
        return random.choice([0, 1, -1, 7, 42, -300, 12345, 99, 100, 150, 151, 18, -17, -1234, 200])
    if kind == 3:
        return random.choice([0.5, -0.25, 3.5, 1.0, 0.0, 10.75, -273.5, 1e-05, 2.5e+20])
    if kind == 4:
        return random.choice([True, False, None])
    if kind == 5:
        return [any_value(depth - 1) for _ in range(random.randint(0, 3))]
    return {text(random.randint(1, 4)): any_value(depth - 1) for _ in range(random.randint(0, 3))}


def resolve(root, ref):
    at = root
    for part in ref.split("/")[1:]:
        at = at[part.replace("~1", "/").replace("~0", "~")]
    return at


def document(root, s, depth=0):
    """Something that may be valid under s, with properties in the order of the schema and no others that are
    not spoken of."""
    if not isinstance(s, dict) or random.random() < 0.06:
        return any_value()
    if "$ref" in s:
        return document(root, resolve(root, s["$ref"]), depth + 1)
    for word in ("anyOf", "oneOf"):
        if word in s:
            chosen = s[word][-1] if depth > 6 else random.choice(s[word])
            both = {**s, **chosen, "properties": {**s.get("properties", {}), **chosen.get("properties", {})},
                    "required": s.get("required", []) + chosen.get("required", [])} if "properties" in s else chosen
            both = {k: v for k, v in both.items() if k not in ("anyOf", "oneOf")}
            return document(root, both, depth)
    if "allOf" in s:
        parts = [document(root, part, depth) for part in s["allOf"]]
        if all(isinstance(p, dict) for p in parts):
            return {k: v for p in parts for k, v in p.items()}
        return random.choice(parts)
    if "const" in s:
        return s["const"]
    if "enum" in s:
        return random.choice(s["enum"])
    types = s.get("type", [t for w, t in (("properties", "object"), ("items", "array"), ("prefixItems", "array"), ("minLength", "string"), ("minimum", "number"), ("maxLength", "string")) if w in s] or "any")
    kind = random.choice(types) if isinstance(types, list) else types
    if kind == "string":
        if ("pattern" in s or "format" in s) and random.random() < 0.9:
            return random.choice(SPECIAL)
        lo = s.get("minLength", 0)
        return text(max(0, random.randint(lo - 1, min(s.get("maxLength", lo + 5) + 1, lo + 8))))
    if kind in ("integer", "number"):
        lo = s.get("minimum", s.get("exclusiveMinimum", s.get("maximum", s.get("exclusiveMaximum", 40)) - 50))
        hi = s.get("maximum", s.get("exclusiveMaximum", lo + random.choice([3, 100, 100000])))
        lo, hi = int(lo // 1), int(hi // 1)
        edge = random.choice([lo - 1, lo, lo + 1, hi - 1, hi, hi + 1, random.randint(lo, max(lo, hi)), random.randint(lo, max(lo, hi))])
        return edge if kind == "integer" or random.random() < 0.4 else round(edge + random.choice([0.5, 0.25, -0.5, 0.125, 0.0]), 3)
    if kind == "boolean":
        return random.choice([True, False])
    if kind == "null":
        return None
    if kind == "array":
        prefix = s.get("prefixItems", [])
        lo, hi = s.get("minItems", 0), s.get("maxItems", max(s.get("minItems", 0), len(prefix)) + 2)
        n = 0 if depth > 6 and not lo else max(0, random.randint(lo - (random.random() < 0.1), hi + (random.random() < 0.1)))
        return [document(root, prefix[i] if i < len(prefix) else s.get("items", {}), depth + 1) for i in range(n)]
    if kind == "object":
        out = {}
        for name, sub in s.get("properties", {}).items():
            needed = name in s.get("required", [])
            if (needed and random.random() < 0.97) or (not needed and random.random() < (0.5 if depth < 5 else 0)):
                out[name] = document(root, sub, depth + 1)
        more = s.get("additionalProperties", not s.get("properties"))
        if more or random.random() < 0.05:
            for _ in range(random.randint(0, 2)):
                name = text(random.randint(1, 5)) if random.random() < 0.5 else random.choice(list(s.get("properties", {"x": 0})) or ["x"]) + "s"
                if name not in s.get("properties", {}) and (not s.get("properties") or all(c not in name for c in "\"\\\n\t")):
                    out[name] = document(root, more, depth + 1)
        return out
    return any_value(2)


def closed(s):
    """The schema with what Hearth's grammars leave out made explicit: no properties but those listed, unless
    the schema speaks of others; no types but those that keywords are about."""
    if isinstance(s, list):
        return [closed(x) for x in s]
    if not isinstance(s, dict):
        return s
    out = {k: v if k in ("enum", "const") else {n: closed(x) for n, x in v.items()} if k in ("properties", "$defs", "definitions") else closed(v)
           for k, v in s.items()}
    if "properties" in s and "additionalProperties" not in s and "anyOf" not in s:
        out["additionalProperties"] = False
    words = {"object": ("properties", "required"), "array": ("items", "prefixItems", "minItems"), "string": ("minLength", "maxLength", "format", "pattern"), "number": ("minimum", "maximum")}
    about = [t for t, names in words.items() if any(n in s for n in names)]
    if about and "type" not in s:
        out["type"] = about
    return out


def dumps(value):
    return random.choice([json.dumps(value, ensure_ascii=False), json.dumps(value, ensure_ascii=False, separators=(",", ":")),
                          json.dumps(value, ensure_ascii=False, indent=2)])


def in_reach(value):
    """Whether a value is written as Hearth's grammars write it: no exponents of constants, no 1.0 as an integer."""
    return "e+" not in json.dumps(value) and "e-" not in json.dumps(value)


def main():
    if sys.argv[1] == "--check":
        return check(sys.argv[2])
    schemas = BY_HAND + [random_schema(3) for _ in range(220 - len(BY_HAND))]
    cases = []
    for s in schemas:
        validator = Draft202012Validator(s, format_checker=Draft202012Validator.FORMAT_CHECKER)
        narrow_schema = {**s, "unevaluatedProperties": False} if isinstance(s, dict) and "allOf" in s else closed(s)
        narrow = Draft202012Validator(narrow_schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        valid, invalid = [], []
        for i in range(400):
            if len(valid) >= 12 and len(invalid) >= 12:
                break
            d = document(s, s) if random.random() < 0.85 else any_value(2)
            if isinstance(d, float) and d == int(d) and isinstance(s, dict) and "number" not in json.dumps(s):
                continue
            if not validator.is_valid(d):
                if len(invalid) < 12:
                    invalid.append(dumps(d))
            elif narrow.is_valid(d) and in_reach(d) and len(valid) < 12 and ordered(s, s, d):
                valid.append(dumps(d))
        # What is no JSON is never valid.
        for t in valid[:3]:
            for broken in (t[:-1], t + "x", t.replace('"', "", 1)):
                try:
                    json.loads(broken)
                except ValueError:
                    invalid.append(broken)
        cases.append({"schema": s, "valid": sorted(set(valid)), "invalid": sorted(set(invalid))})
    few = [i for i, c in enumerate(cases) if len(c["valid"]) < 2]
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases) + "\n]\n")
    print(len(cases), "schemas,", sum(len(c["valid"]) for c in cases), "valid documents,", sum(len(c["invalid"]) for c in cases),
          "invalid ones; few valid ones:", few)


def has_float_integers(d):
    if isinstance(d, float):
        return d == int(d)
    if isinstance(d, list):
        return any(map(has_float_integers, d))
    return isinstance(d, dict) and any(map(has_float_integers, d.values()))


def ordered(root, s, d):
    """Integers are written without a point in valid documents."""
    return not (has_float_integers(d) and "integer" in json.dumps(s) or has_float_integers(d) and "enum" in json.dumps(s))


def check(path):
    root = __file__.rsplit("/", 3)[0]
    with open(root + "/tests/golden/grammar/schemas.json", encoding="utf-8") as f:
        cases = json.load(f)
    n = failed = 0
    for line in open(path, encoding="utf-8"):
        number, _, document_text = line.rstrip("\n").partition(" ")
        schema = cases[int(number)]["schema"]
        d = json.loads(document_text)
        n += 1
        for error in Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).iter_errors(d):
            failed += 1
            print("schema", number, json.dumps(schema), "document", document_text, ":", error.message)
    print(n, "documents,", failed, "invalid")
    return failed > 0


sys.exit(main())
